-- A job claims the idle session: messages queue meanwhile, and no turn runs.
--
-- ARGV  token                 id    made by the caller
-- ARGV  name                  text  for people
-- ARGV  maintenance_lease_ms  ms    the job's right, until it is extended
-- Replies
--   OK
--   BUSY        phase  it is not idle
--   SUPERSEDED         the job has ended: a late repeat does not begin it again
--   NO_SESSION
--   CLOSED
-- @include lib/activity

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('phase') == 'maintenance' and text('activity') == token then
  return { 'OK' }
elseif text('maintenance_last') == token then
  return { 'SUPERSEDED' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif text('phase') ~= 'idle' then
  return { 'BUSY', text('phase') }
end

set('phase', 'maintenance')
set('activity', token)
set('maintenance', name)
no_deadline('retention')
deadline('maintenance', tonumber(maintenance_lease_ms))
return done('OK')
