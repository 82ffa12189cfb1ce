-- FLAGS allow-oom
-- The agent never took its prompt: the turn is lost, its messages go back in line, the execution is not used again.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            no prompt waits for its acceptance
-- @include lib/due
-- @include lib/endings

if not is_due('acceptance') then
  return { 'NOT_DUE' }
elseif text('open_claim') == '' or text('open_accepted') ~= '' then
  no_deadline('acceptance')
  return { 'GONE' }
end

return done('OK', refuse_prompt())
