-- FLAGS no-writes
-- A session at one moment: everything that its snapshot shows. Also on a server that is full.
--
-- KEYS  in_flight  list  what the open turn took, in order
-- KEYS  guard      hash  owner and number, under a TTL
-- KEYS  suspects   set   executions whose end is not confirmed
-- ARGV  kinds...   word  of deadlines
-- Replies
--   OK          record next_turn next_step in_flight messages message_info guard, ms_left of the guard, suspects,
--               deadlines (0 for none), and now
--   NO_SESSION
-- @include lib/inbox
-- @include lib/deadline

if text('schema') == '' then
  return { 'NO_SESSION' }
end

local times = {}
for at = kinds, #ARGV do
  times[#times + 1] = deadline_of(ARGV[at])
end
return { 'OK', redis.call('HGETALL', session), redis.call('LRANGE', next_turn, 0, -1),
  redis.call('LRANGE', next_step, 0, -1), redis.call('LRANGE', in_flight, 0, -1), redis.call('HGETALL', messages),
  redis.call('HGETALL', message_info), redis.call('HGETALL', guard), redis.call('PTTL', guard),
  redis.call('SMEMBERS', suspects), times, now }
