-- FLAGS allow-oom
-- A replica asks, under the guard and before any handler runs, whether the ready is still current.
--
-- Replies
--   OK          failures  handler failures so far
--   STALE       why       acknowledged, counted and logged
--   NO_SESSION            the same for a session that is not there
--   GUARDED     ms_left
--   GUARD_LOST
-- @include lib/ready_entry

local refusal = ready_refused()
if refusal then
  return refusal
end
return { 'OK', int(number('handler_failures')) }
