-- What happened to the session, for followers; and what is counted for the partition.
--
-- KEYS  log       stream  the session's log
-- KEYS  counters  hash    the partition's counters
-- ARGV  max_log   int     entries that a log keeps, about
-- @include lib/clock

local function log_entry(kind, ...)
  redis.call('XADD', log, 'MAXLEN', '~', max_log, '*', 'type', kind, 'at_ms', int(now), ...)
end

-- As much of a text as an entry holds, whole characters.
local function shown(body)
  if #body <= 16384 then
    return body
  end
  return (body:sub(1, 16384):gsub('[\194-\244][\128-\191]*$', ''))
end

local function count(name)
  redis.call('HINCRBY', counters, name, 1)
end
