-- Keep the session for a maintenance job that goes on.
--
-- ARGV  token                 id  the job's
-- ARGV  maintenance_lease_ms  ms  its right, from now
-- Replies
--   OK          cause  why it should stop, or empty
--   SUPERSEDED         it is no longer the session's activity
-- @include lib/record
-- @include lib/deadline

if text('phase') ~= 'maintenance' or text('activity') ~= token then
  return { 'SUPERSEDED' }
end
deadline('maintenance', tonumber(maintenance_lease_ms))
return { 'OK', text('cancel_cause') }
