-- FLAGS allow-oom
-- The worker that owns the open prompt says that its agent can't acknowledge the cancel: nobody waits for the deadline.
--
-- ARGV  why  text  for people
-- Replies
--   OK          place  the token for which a placement has to be offered, or empty; the same again once it is so
--   SUPERSEDED  what differs
--   GONE        no operation is recorded
-- @include lib/ownership
-- @include lib/endings

if text('open_claim') == '' and text('last_reason') == 'escalated' and not differs_from('last_') then
  return { 'OK', placed_before() }
elseif not owns() then
  return { 'SUPERSEDED', why_stale() }
elseif not is_stopping() then
  return { 'GONE' }
end

return done('OK', escalate(why))
