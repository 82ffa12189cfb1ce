-- FLAGS allow-oom
-- Give the guard back; who waits for it is told, and so is a driver that it held up.
--
-- KEYS  guard  hash  owner and number, under a TTL
-- ARGV  owner  id    the holder
-- ARGV  fence  int   its number
-- Replies
--   OK
--   GUARD_LOST  it is free, or has another holder: nothing was written
-- @include lib/done

local holder = redis.call('HMGET', guard, 'owner', 'number')
if holder[1] ~= owner or holder[2] ~= fence then
  return { 'GUARD_LOST' }
end

redis.call('DEL', guard)
hint_waiting()
return done('OK')
