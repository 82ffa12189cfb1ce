-- Move a session to another step of its workflow: at once, or at the end of the turn that is under way.
--
-- ARGV  operation_id  id    the move's; its repeat gets the first answer
-- ARGV  step          word  where to
-- ARGV  deferred      flag  1 when a turn that runs has to be settled first
-- ARGV  exists        flag  1 when the published workflow has the step
-- ARGV  next_entry    id    for the entry that may begin
-- Replies
--   OK          answer  applied or pending
--   DUPLICATE   answer  the first answer
--   CONFLICT            this id was used for another move
--   NO_SESSION
--   SUPERSEDED  why     the turn that asks is over
--   CLOSED
--   GUARD_LOST          the number is no longer the guard's
--   GONE                the session has no workflow
--   NO_STEP             it has no such step
-- @include lib/ownership
-- @include lib/fence
-- @include lib/first_answer
-- @include lib/entry
-- @include lib/done

local first, conflicts = first_answer()
if conflicts then
  return { 'CONFLICT' }
elseif first then
  return { 'DUPLICATE', first[1] }
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif is_of_another_turn() then
  return { 'SUPERSEDED', why_stale() }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif has_lost_guard() then
  return { 'GUARD_LOST' }
elseif text('workflow') == '' then
  return { 'GONE' }
elseif exists == '0' then
  return { 'NO_STEP' }
end

local waits = text('unsettled') ~= '' or text('entering') ~= '' or (deferred == '1' and text('phase') == 'running')
local answer = waits and 'pending' or 'applied'
set('move_id', operation_id)
set('move_step', step)
set('move_deferred', deferred == '1' and '1' or '')
if waits then
  log_entry('move.pending', 'move_id', operation_id, 'step', step)
else
  apply_move(next_entry)
end
keep_answer(answer)
return done('OK', answer)
