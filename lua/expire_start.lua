-- FLAGS allow-oom
-- An execution did not boot in time: a failed start, which parks what is queued.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            nothing is starting
-- @include lib/due
-- @include lib/endings

if not is_due('start') then
  return { 'NOT_DUE' }
elseif text('execution_status') ~= 'starting' then
  no_deadline('start')
  return { 'GONE' }
end

return done('OK', fail_start())
