-- FLAGS allow-oom
-- A cancel was not acknowledged in time: what it was recorded for has ended as escalated.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            no operation is recorded
-- @include lib/due
-- @include lib/endings

if not is_due('cancel') then
  return { 'NOT_DUE' }
elseif not is_stopping() then
  no_deadline('cancel')
  return { 'GONE' }
end

return done('OK', escalate('cancel not acknowledged in time'))
