-- FLAGS allow-oom
-- Keep the guard for another lease.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  owner         id    the holder
-- ARGV  fence         int   its number
-- ARGV  guard_ttl_ms  ms    the lease
-- Replies
--   OK
--   GUARD_LOST  it is free, or has another holder

local holder = redis.call('HMGET', guard, 'owner', 'number')
if holder[1] ~= owner or holder[2] ~= fence then
  return { 'GUARD_LOST' }
end
redis.call('PEXPIRE', guard, guard_ttl_ms)
return { 'OK' }
