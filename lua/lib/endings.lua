-- How an execution's end, or an operation's deadline, ends what was open, whichever script finds it.
--
-- @include lib/lose_prompt
-- @include lib/reset
-- @include lib/end_maintenance

-- Answers the token for which a placement has to be offered, or ''.
local function escalate(why)
  count('escalations')
  if text('open_claim') == '' then
    return end_maintenance('escalated')
  end
  end_prompt('escalated', false, why)
  void_execution(why)
  return (select(2, leave(false, false, false)))
end

local function refuse_prompt()
  local parks = lose_prompt('lost', 'its agent never accepted the prompt')
  void_execution('prompt not accepted in time')
  return (select(2, leave(false, parks, false)))
end

local function fail_start()
  local driven = text('activity_execution') == text('execution_id')
  if is_called() then
    return fail_call('did not start in time')
  end
  void_execution('did not start in time')
  if driven then
    return (select(2, exit_decision(false, true)))
  end
  return text('phase') == 'running' and text('activity') or ''
end

-- An agent whose start takes its worker with it would go through all workers: the third time parks.
local function note_lost_start()
  set('lost_starts', number('lost_starts') + 1)
  if number('lost_starts') < 3 then
    return false
  end
  set('lost_starts', '')
  log_entry('error', 'where', 'start', 'message', 'three workers were lost while it started; parked until the next wake')
  return true
end

local function lose_execution()
  local parks, place = false, ''
  if is_called() then
    return fail_call('its worker is gone')
  end
  if text('open_claim') ~= '' then
    parks = lose_prompt('lost', 'its worker is gone')
  end
  local driven = text('activity_execution') == text('execution_id')
  if driven and text('execution_status') == 'starting' then
    parks = note_lost_start()
  end
  void_execution('lease expired')
  if driven then
    place = select(2, leave(false, parks, false))
  elseif text('phase') == 'running' then
    deadline('placement', tonumber(placement_ms))
    place = text('activity')
  end
  return place
end
