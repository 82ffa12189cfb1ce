-- What ends by itself: one member a kind and session, scored by the server's milliseconds.
--
-- KEYS  deadlines   zset  the partition's deadlines
-- ARGV  session_id  id    the session
-- @include lib/clock

local function deadline(kind, ms)
  redis.call('ZADD', deadlines, int(now + ms), kind .. ':' .. session_id)
end

local function no_deadline(...)
  local members = {}
  for i, kind in ipairs({ ... }) do
    members[i] = kind .. ':' .. session_id
  end
  redis.call('ZREM', deadlines, unpack(members))
end

local function deadline_of(kind)
  return tonumber(redis.call('ZSCORE', deadlines, kind .. ':' .. session_id) or '0')
end
