-- FLAGS allow-oom
-- The agent of the open prompt says something. The first output, which may be empty, is its acceptance.
--
-- ARGV  ordinal  int  1 for a prompt's first, one more for each
-- Replies
--   OK          done, or done before
--   SUPERSEDED  what differs: the agent that said it is to be stopped
-- @include lib/ownership
-- @include lib/speech
-- @include lib/done

if not owns() then
  local repeated = is_own_repeat() and tonumber(ordinal) <= number('last_output')
  return repeated and { 'OK' } or { 'SUPERSEDED', why_stale() }
elseif tonumber(ordinal) <= number('open_output') then
  return { 'OK' }
end

say()
return done('OK')
