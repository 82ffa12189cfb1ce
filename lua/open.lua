-- Make a session, or change the policy of an open one.
--
-- ARGV  settlement          word  required or none
-- ARGV  lost_turns          word  fail or retry
-- ARGV  retries             int   attempts of one message
-- ARGV  after_error         word  park or continue
-- ARGV  on_handler_failure  word  continue or park
-- Replies
--   OK      created  1 for a new session, 0 for one whose policy was changed
--   CLOSED           closing or closed, until retention removes it
-- @include lib/activity

if text('lifecycle') ~= '' and text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
end
local created = text('schema') == ''

set('settlement', settlement)
set('lost_turns', lost_turns)
set('retries', retries)
set('after_error', after_error)
set('on_handler_failure', on_handler_failure)
if created then
  set('schema', '1')
  set('lifecycle', 'open')
  set('phase', 'idle')
  set('opened_ms', now)
  set('status_ms', now)
  redis.call('ZADD', sessions, int(now), session_id)
  deadline('retention', tonumber(retention_idle_ms))
  log_entry('session.opened')
  count('opened')
end
done('OK')
return { 'OK', created and '1' or '0' }
