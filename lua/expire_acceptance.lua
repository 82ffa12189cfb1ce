-- FLAGS allow-oom
-- The agent never took its prompt: the turn is lost, its messages go back in line, the execution is not used again.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            no prompt waits for its acceptance
-- @include lib/due
-- @include lib/lose_prompt
-- @include lib/exit

if not is_due('acceptance') then
  return { 'NOT_DUE' }
elseif text('open_claim') == '' or text('open_accepted') ~= '' then
  no_deadline('acceptance')
  return { 'GONE' }
end

local parks = lose_prompt('lost', 'its agent never accepted the prompt')
void_execution('prompt not accepted in time')
local _, place = exit_decision(false, parks)
return done('OK', place)
