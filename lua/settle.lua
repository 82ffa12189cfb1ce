-- FLAGS allow-oom
-- A replica settles the turn that an `agent.ready` names: all its effects, and its acknowledgement, at once.
--
-- ARGV  step_to     word  the step that the turn's evaluation goes to, or empty
-- ARGV  seen        text  what `settle_begin` answered of the evaluation, and of whose stop; empty without a guard
-- ARGV  seen_entry  id    the step entry that was evaluated
-- ARGV  next_entry  id    for the entry that may begin
-- ARGV  complaint   text  why the step could not be evaluated, for the log; or empty
-- Replies
--   OK          outcome  the same again for the entry that settled the turn
--   STALE       why      not the unsettled turn: acknowledged, counted and logged
--   NO_SESSION           the same for a session that is not there
--   GUARDED     ms_left  somebody holds the guard: nothing was written, try again
--   GUARD_LOST           the guard was lost: nothing was written
--   RESETTING            a reset is on: nothing was written, try again
--   EVALUATE             a step is concerned, or what was seen has changed: begin under the guard, then settle
-- @include lib/ready_entry
-- @include lib/settled
-- @include lib/evaluation
-- @include lib/entry
-- @include lib/done

if text('settled_entry') == entry_id and not differs_from('last_') and text('unsettled') == '' then
  return { 'OK', text('settled_outcome') }
end
local refusal = ready_refused()
if refusal then
  return refusal
end

local word, stopper = evaluation(), cancelled_by()
if word == 'evaluate' and (guard_number ~= '0' or is_in_step()) and seen ~= word .. ' ' .. stopper then
  return { 'EVALUATE' }
end

local advances = word == 'evaluate' and step_to ~= '' and seen_entry == text('step_entry') and is_in_step()
local outcome = advances and 'advanced' or word
if word == 'evaluate' and not advances then
  outcome = stopper == '' and 'stayed' or 'none'
end
set('settled_entry', entry_id)
if complaint ~= '' and word == 'evaluate' then
  log_entry('error', 'where', 'workflow', 'message', complaint, 'turn', text('last_turn'), 'step', text('step'))
end
settled(outcome)
if word == 'question' then
  -- Read again when nobody has answered.
  set('last_cancel_kind', stopper)
end
if advances then
  begin_entry(step_to, next_entry)
elseif outcome == 'moved' then
  apply_move(next_entry)
end
give_guard_back()
hint_waiting()
redis.call('XACK', events, group, entry_id)
return done('OK', outcome)
