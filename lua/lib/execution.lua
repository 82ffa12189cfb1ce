-- The execution that serves the session, and its end.
--
-- KEYS  suspects       set     executions whose end is not confirmed
-- KEYS  events         stream  what replicas must act on
-- ARGV  suspect_ms     ms      how long an unconfirmed execution is remembered after it was last named
-- @include lib/record
-- @include lib/over
-- @include lib/log
-- @include lib/done

-- An execution is usable while its worker's lease runs; an expired lease that the next sweep will meet does not count.
-- One that is still starting counts: its worker takes the next activity when it is up.
local function is_live()
  return text('execution_id') ~= '' and not is_over('lease')
end

local function execution_event(kind, reason)
  redis.call('XADD', events, '*', 'type', kind, 'session_id', session_id, 'execution_id', text('execution_id'),
    'worker_id', text('worker_id'), 'reason', reason, 'at_ms', int(now))
end

local function clear_execution(status)
  for _, field in ipairs({ 'execution_id', 'worker_id', 'unnamed' }) do
    set(field, '')
  end
  set('execution_status', status)
  no_deadline('lease', 'start')
end

-- Nobody knows whether its agent has stopped: it is never used again, and remembered until its worker says so.
local function void_execution(reason)
  redis.call('SADD', suspects, text('execution_id'))
  deadline('suspect', tonumber(suspect_ms))
  execution_event('agent.lost', reason)
  tell_worker('drop', session_id, text('execution_id'))
  log_entry('error', 'where', 'execution', 'message', reason, 'execution_id', text('execution_id'),
    'worker_id', text('worker_id'))
  count('lost')
  clear_execution('none')
end
