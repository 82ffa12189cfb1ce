-- Who owns the session now: beginning and ending a driver's run.
--
-- KEYS  sessions           zset  session ids by last status change
-- KEYS  awake              zset  pending waking messages by sequence
-- ARGV  placement_ms       ms    until a placement is offered again
-- ARGV  retention_idle_ms  ms    until an idle session is closed
-- @include lib/record
-- @include lib/deadline
-- @include lib/log
-- @include lib/execution
-- @include lib/done

local function log_status(status)
  set('status_ms', now)
  redis.call('ZADD', sessions, int(now), session_id)
  log_entry('session.status', 'status', status)
end

-- True when the caller has to offer a placement: no live execution was there to be told.
local function start_activity(token)
  set('phase', 'running')
  set('activity', token)
  set('activity_execution', '')
  set('offers', '')
  deadline('placement', tonumber(placement_ms))
  no_deadline('retention')
  log_status('running')
  if is_live() then
    hint_worker()
    return false
  end
  return true
end

-- A maintenance job showed as idle, so its end is no change of status.
local function go_idle()
  local was_running = text('phase') == 'running'
  set('phase', 'idle')
  set('activity', '')
  set('activity_execution', '')
  no_deadline('placement')
  deadline('retention', tonumber(retention_idle_ms))
  if was_running then
    log_status('idle')
  end
end

local function has_awake()
  return redis.call('ZCOUNT', awake, '(' .. int(number('park_mark')), '+inf') > 0
end

local function raise_mark()
  set('park_mark', number('sequence'))
end

-- A driver that waits with nothing open would run what is parked.
local function park_waiting()
  raise_mark()
  if text('phase') == 'running' and text('open_claim') == '' then
    go_idle()
  end
end
