-- FLAGS allow-oom
-- A replica asks, under the guard and before any handler runs, whether the ready is still current.
--
-- Replies
--   OK          failures word stopper workflow step step_entry signalled
--                         handler failures so far; evaluate, moved, question or none; the kind of stop that the turn
--                         counts as ended by; then the step, empty when the turn is not of the present entry
--   STALE       why       acknowledged, counted and logged
--   NO_SESSION            the same for a session that is not there
--   GUARDED     ms_left
--   GUARD_LOST
--   RESETTING             a reset is on: try again
-- @include lib/ready_entry
-- @include lib/evaluation

local refusal = ready_refused()
if refusal then
  return refusal
end
local step = is_in_step() and { text('workflow'), text('step'), text('step_entry') } or { '', '', '' }
local signalled = step[3] ~= '' and text('signalled') == step[3] and '1' or ''
return { 'OK', int(number('handler_failures')), evaluation(), cancelled_by(), step[1], step[2], step[3], signalled }
