-- Whether a deadline may be acted on: after an outage none counts as due until a sweep has given grace.
--
-- KEYS  counters  hash  the partition's counters; holds swept_ms
-- @include lib/deadline

local OUTAGE_MS = 3000

local function is_over(kind)
  local at = deadline_of(kind)
  return at > 0 and at <= now
    and now - tonumber(redis.call('HGET', counters, 'swept_ms') or '0') <= OUTAGE_MS
end
