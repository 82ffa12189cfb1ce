-- FLAGS allow-oom
-- A session that was idle for long is closed, visibly; one that was closed for long is removed.
--
-- KEYS  guard      hash  owner and number, under a TTL
-- KEYS  in_flight  list  what a turn took
-- Replies
--   OK       closed or removed
--   NOT_DUE
--   GONE     it is not idle
-- @include lib/due
-- @include lib/close_now
-- @include lib/abandon

if not is_due('retention') then
  return { 'NOT_DUE' }
elseif text('lifecycle') == 'closed' or text('schema') == '' then
  redis.call('DEL', session, next_turn, next_step, in_flight, awake, messages, message_info, log, guard, suspects)
  redis.call('ZREM', sessions, session_id)
  no_deadline('retention', 'lease', 'suspect', 'settlement')
  count('removed')
  redis.pcall('PUBLISH', channels .. 'hint:' .. session_id, 'removed')
  return { 'OK', 'removed' }
elseif text('phase') ~= 'idle' then
  no_deadline('retention')
  return { 'GONE' }
end

abandon_flow()
discard_all('expired')
close_now()
return done('OK', 'closed')
