-- FLAGS allow-oom
-- A maintenance job did not extend its right: it is over, whatever its process does.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            there is no such job
-- @include lib/due
-- @include lib/end_maintenance

if not is_due('maintenance') then
  return { 'NOT_DUE' }
elseif text('phase') ~= 'maintenance' then
  no_deadline('maintenance')
  return { 'GONE' }
end

log_entry('error', 'where', 'maintenance', 'message', 'its lease expired')
return done('OK', end_maintenance('escalated'))
