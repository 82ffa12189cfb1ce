-- FLAGS allow-oom
-- Stop what runs: record the operation for exactly what is open, or end an activity with nothing open at once.
--
-- ARGV  operation_id  id    made by the caller; the ticket, unless the call joins another's
-- ARGV  kind          word  user, parent, silent or system
-- ARGV  keep_inbox    flag  0 discards everything pending first
-- Replies
--   OK            ticket outcome place  outcome: empty while it is pending
--   DUPLICATE     ticket outcome        the first answer
--   CONFLICT                            this id was used with other options
--   NO_SESSION
--   GUARD_LOST                          the number is no longer the guard's
--   TURN_CHANGED                        the expected turn or generation is not current
--   OPERATION     kind                  an operation that can't be joined is recorded
-- @include lib/fence
-- @include lib/first_answer
-- @include lib/stop

local place_offered = ''

local function answer(ticket, outcome)
  keep_answer(ticket, outcome == '' and '-' or outcome)
  return done('OK', ticket, outcome, place_offered)
end

local first, conflicts = first_answer()
if conflicts then
  return { 'CONFLICT' }
elseif first then
  return { 'DUPLICATE', first[1], first[2] == '-' and '' or first[2] }
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif has_lost_guard() then
  return { 'GUARD_LOST' }
end
place_offered = apply_overdue()
if not is_expected() then
  return refuse('TURN_CHANGED')
elseif not is_resetting() and is_stopping() and (is_exclusive(kind) or is_exclusive(text('cancel_kind')) and kind ~= 'user') then
  return refuse('OPERATION', text('cancel_kind'))
end

local parks = kind == 'user' or kind == 'parent'
local open, running = text('open_claim') ~= '', text('phase') ~= 'idle'
if keep_inbox == '0' then
  discard_all('cancelled')
  if text('entering') ~= '' then
    set('entry_dropped', '1')
  end
end
if parks and (running or text('entering') ~= '') then
  park(false)
end
if kind == 'user' and (open or text('unsettled') ~= '') and text('cancelled_turn') ~= text('turn') then
  set('cancelled_turn', text('turn'))
  log_entry('turn.cancelled_by_user', 'turn', text('turn'), 'operation_id', operation_id)
end
if parks then
  note_late_stop(kind)
end
if is_resetting() then
  -- The reset is not touched: the call shares the ticket of its stop, or there is nothing to stop any more.
  return answer(is_stopping() and text('cancel_id') or operation_id, is_stopping() and '' or 'idle')
elseif is_stopping() or open or text('phase') == 'maintenance' and parks then
  local ticket = is_stopping() and text('cancel_id') or operation_id
  local place = stop(operation_id, kind)
  place_offered = place or place_offered
  return answer(ticket, place and 'escalated' or '')
elseif parks and running then
  exit_decision(false, false)
  hint_worker()
  return answer(operation_id, 'cancelled')
end
return answer(operation_id, 'idle')
