-- FLAGS allow-oom
-- No worker has named the session's suspect executions for so long that their own workers must have stopped them.
--
-- Replies
--   OK
--   NOT_DUE
-- @include lib/due
-- @include lib/execution
-- @include lib/done

if not is_due('suspect') then
  return { 'NOT_DUE' }
end

redis.call('DEL', suspects)
no_deadline('suspect')
return done('OK')
