-- What happened to the session, for followers; and what is counted for the partition.
--
-- KEYS  log       stream  the session's log
-- KEYS  counters  hash    the partition's counters
-- ARGV  max_log   int     entries that a log keeps, about
-- @include lib/clock

local function log_entry(kind, ...)
  redis.call('XADD', log, 'MAXLEN', '~', max_log, '*', 'type', kind, 'at_ms', int(now), ...)
end

local function count(name)
  redis.call('HINCRBY', counters, name, 1)
end
