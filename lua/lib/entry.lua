-- The entry into a workflow step: decided in one script, carried out by any replica, ended by `enter_end`.
--
-- KEYS  events    stream  what replicas must act on
-- ARGV  entry_ms  ms      until an entry that has not ended is announced again
-- @include lib/record
-- @include lib/deadline
-- @include lib/log

local function announce(kind, entry_id)
  redis.call('XADD', events, '*', 'type', kind, 'session_id', session_id, 'execution_id', text('execution_id'),
    'worker_id', text('worker_id'), 'reason', '', 'at_ms', int(now), 'workflow', text('workflow'), 'step', text('step'),
    'entry_id', entry_id)
end

-- Its prompt takes the sequence that is drawn here: a later stop parks it, and a broad one drops it.
local function begin_entry(step, entry_id)
  set('step', step)
  set('step_entry', entry_id)
  set('entering', entry_id)
  for _, field in ipairs({ 'entry_tries', 'entry_dropped', 'entry_after', 'step_failed', 'signalled' }) do
    set(field, '')
  end
  set('sequence', number('sequence') + 1)
  set('entry_sequence', text('sequence'))
  deadline('entry', tonumber(entry_ms))
  announce('step.entering', entry_id)
end

-- The step keeps its new name, and says that it was not entered.
local function fail_entry(why)
  log_entry('error', 'where', 'entry', 'message', why, 'step', text('step'), 'entry_id', text('entering'))
  count('entry.failed')
  set('step_failed', text('entering'))
  set('entering', '')
  no_deadline('entry')
end

-- A move to the step that the session is at is applied by nothing, unless that was not entered: then it is a new try.
local function apply_move(entry_id)
  local step = text('move_step')
  if step == '' then
    return
  end
  log_entry('move.applied', 'move_id', text('move_id'), 'step', step)
  for _, field in ipairs({ 'move_id', 'move_step', 'move_deferred' }) do
    set(field, '')
  end
  if step ~= text('step') or text('step_failed') ~= '' then
    begin_entry(step, entry_id)
  end
end
