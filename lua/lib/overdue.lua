-- Deadlines that are over when a stop comes: they are applied first, as a sweep would.
--
-- @include lib/endings

local OUTAGE_MS = 3000
local is_written = false

-- After an outage deadlines count as not due until a sweep has given grace.
local function is_over(kind)
  local swept = tonumber(redis.call('HGET', counters, 'swept_ms') or '0')
  local at = deadline_of(kind)
  return at > 0 and at <= now and now - swept <= OUTAGE_MS
end

-- Answers the token for which a placement has to be offered, or ''.
local function apply_overdue()
  if is_stopping() and is_over('cancel') then
    is_written = true
    return escalate('cancel not acknowledged in time')
  end
  return ''
end

-- A refusal writes nothing; only an overdue end that was met on the way is kept.
local function refuse(...)
  return is_written and done(...) or { ... }
end
