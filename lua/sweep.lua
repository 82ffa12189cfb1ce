-- FLAGS allow-oom
-- What is due in a partition. A sweep that finds the last one too long ago declares nothing dead: Redis or the
-- replicas were away, so every due deadline gets one more lease first.
--
-- KEYS  deadlines  zset  the partition's deadlines
-- KEYS  counters   hash  the partition's counters; holds swept_ms
-- ARGV  lease_ms   ms    the grace
-- ARGV  outage_ms  ms    how old the last sweep may be
-- ARGV  most       int   how many deadlines to answer
-- Replies
--   OK  now, the earliest deadline or 0, then member and score of each due one
-- @include lib/clock

local swept = tonumber(redis.call('HGET', counters, 'swept_ms') or '0')
redis.call('HSET', counters, 'swept_ms', int(now))
if now - swept > tonumber(outage_ms) then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', deadlines, '-inf', int(now))) do
    redis.call('ZADD', deadlines, int(now + lease_ms), member)
  end
end
local first = redis.call('ZRANGE', deadlines, 0, 0, 'WITHSCORES')
local reply = { 'OK', int(now), first[2] or '0' }
if first[2] and tonumber(first[2]) <= now then
  for _, value in ipairs(redis.call('ZRANGEBYSCORE', deadlines, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, most)) do
    reply[#reply + 1] = value
  end
end
return reply
