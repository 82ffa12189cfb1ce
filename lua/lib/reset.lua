-- A context reset as data: a marker with a deadline, and one end. No process shepherds it.
--
-- @include lib/resetting
-- @include lib/entry
-- @include lib/exit

local MAY_LIVE = 'an execution may still be alive'

local function end_reset(outcome, why)
  local id = text('reset_id')
  log_entry('reset.' .. outcome, 'reset_id', id, 'why', why)
  count('reset.' .. outcome)
  set('reset_last', id)
  set('reset_outcome', outcome)
  set('reset_by', '')
  set('reset_id', '')
  no_deadline('reset')
  -- The step's entry goes on from here, whoever carries it out.
  if text('entering') ~= '' and id == 'reset-' .. text('entering') then
    announce('step.entering', text('entering'))
  end
end

-- Never a success that nobody confirmed. Answers as the exit decision does.
local function fail_reset(why)
  end_reset('failed', why)
  if text('open_claim') ~= '' then
    raise_mark()
    return 'GO_ON', ''
  end
  return exit_decision(false, true)
end

-- Nothing is open any more: the session is the reset's. Without an execution there is nothing to call.
local function quiesced()
  go_idle()
  if text('execution_id') ~= '' and not is_live() then
    void_execution('lease expired')
  end
  if redis.call('SCARD', suspects) > 0 then
    return fail_reset(MAY_LIVE)
  elseif text('execution_id') == '' then
    set('resume_token', '')
    end_reset('committed', 'no execution')
    return exit_decision(false, false)
  end
  set('phase', 'maintenance')
  set('activity', text('reset_id'))
  no_deadline('retention')
  tell_worker('reset', session_id, text('reset_id'))
  return 'GONE', ''
end

-- Whether the worker has the session, to replace the provider's.
local function is_called()
  return is_resetting() and text('phase') == 'maintenance'
end

-- Whatever died: an agent that may be in the call is not used again, and a later commit is superseded. Answers the token
-- for which a placement has to be offered, or ''.
local function fail_call(why)
  if is_called() then
    void_execution(why)
  end
  return (select(2, fail_reset(why)))
end

-- What follows the end of a turn. Under the marker only its driver's own word confirms the stop.
local function leave(natural, parks, is_confirmed)
  if not is_resetting() then
    return exit_decision(natural, parks)
  elseif is_confirmed then
    return quiesced()
  end
  return fail_reset('the stop was not confirmed')
end
