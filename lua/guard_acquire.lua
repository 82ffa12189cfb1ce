-- FLAGS allow-oom
-- Take the session's guard, or extend one's own hold by repeating the call.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  owner         id    made by the caller, so that a lost reply leaves no owner that does not know it
-- ARGV  guard_ttl_ms  ms    the lease
-- Replies
--   OK          number         the fencing number, one more for every holder
--   GUARD_BUSY  ms_left owner
--   NO_SESSION
-- @include lib/clock
-- @include lib/done

if text('schema') == '' then
  return { 'NO_SESSION' }
end
local holder = redis.call('HMGET', guard, 'owner', 'number')
if holder[1] == owner then
  redis.call('PEXPIRE', guard, guard_ttl_ms)
  return { 'OK', holder[2] }
elseif holder[1] then
  return { 'GUARD_BUSY', int(redis.call('PTTL', guard)), holder[1] }
end

local fence = int(number('guard_number') + 1)
set('guard_number', fence)
redis.call('HSET', guard, 'owner', owner, 'number', fence)
redis.call('PEXPIRE', guard, guard_ttl_ms)
return done('OK', fence)
