-- The fence of calls that a guard's holder may make, and anybody without one.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  guard_number  int   the caller's guard, 0 for none

local function has_lost_guard()
  return guard_number ~= '0' and redis.call('HGET', guard, 'number') ~= guard_number
end
