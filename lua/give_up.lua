-- FLAGS allow-oom
-- A hook for an event that settles nothing has failed too often: the stream entry is given up, visibly.
--
-- KEYS  events      stream  where the entry is pending
-- KEYS  dead        stream  entries given up
-- ARGV  group       text    the replicas' group
-- ARGV  event_id    id      the stream entry
-- ARGV  event_type  word    its type
-- ARGV  event_key   id      what its hook knows a repeat by, or empty
-- ARGV  error_text  text    what failed
-- Replies
--   DEAD  given up; by policy what is queued is parked
--   GONE  given up before
-- @include lib/activity
-- @include lib/done

if redis.call('XACK', events, group, event_id) == 0 then
  return { 'GONE' }
end

redis.call('XADD', dead, 'MAXLEN', '~', '10000', '*', 'type', event_type, 'session_id', session_id, 'key', event_key,
  'entry_id', event_id, 'error', error_text)
count('dead')
if text('schema') == '' then
  return { 'DEAD' }
end
log_entry('error', 'where', 'handler', 'message', error_text, 'event', event_type)
if text('on_handler_failure') == 'park' then
  park_waiting()
end
return done('DEAD')
