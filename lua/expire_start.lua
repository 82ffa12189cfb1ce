-- FLAGS allow-oom
-- An execution did not boot in time: a failed start, which parks what is queued.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            nothing is starting
-- @include lib/due
-- @include lib/exit

if not is_due('start') then
  return { 'NOT_DUE' }
elseif text('execution_status') ~= 'starting' then
  no_deadline('start')
  return { 'GONE' }
end

local driven = text('activity_execution') == text('execution_id')
void_execution('did not start in time')
local place = text('phase') == 'running' and text('activity') or ''
if driven then
  local _
  _, place = exit_decision(false, true)
end
return done('OK', place)
