-- FLAGS allow-oom
-- A worker's lease ran out: its execution is never used again, its prompt has ended as lost, the session goes on.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            there is no execution
-- @include lib/due
-- @include lib/lose_prompt
-- @include lib/exit

if not is_due('lease') then
  return { 'NOT_DUE' }
elseif text('execution_id') == '' then
  no_deadline('lease')
  return { 'GONE' }
end

local parks, place = false, ''
if text('open_claim') ~= '' then
  parks = lose_prompt('lost', 'its worker is gone')
end
local driven = text('activity_execution') == text('execution_id')
void_execution('lease expired')
if driven then
  local _
  _, place = exit_decision(false, parks)
elseif text('phase') == 'running' then
  deadline('placement', tonumber(placement_ms))
  place = text('activity')
end
return done('OK', place)
