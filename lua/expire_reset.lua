-- FLAGS allow-oom
-- A reset has not ended in time, whatever died: it has failed, and a later commit is superseded.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            no reset is on
-- @include lib/due
-- @include lib/endings

if not is_due('reset') then
  return { 'NOT_DUE' }
elseif not is_resetting() then
  no_deadline('reset')
  return { 'GONE' }
end

return done('OK', fail_call('not answered in time'))
