-- FLAGS allow-oom
-- A worker's lease ran out: its execution is never used again, its prompt has ended as lost, the session goes on.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            there is no execution
-- @include lib/due
-- @include lib/endings

if not is_due('lease') then
  return { 'NOT_DUE' }
elseif text('execution_id') == '' then
  no_deadline('lease')
  return { 'GONE' }
end

return done('OK', lose_execution())
