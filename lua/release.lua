-- FLAGS allow-oom
-- A worker gives up an execution that drives nothing, or reports that a suspect one is gone.
--
-- ARGV  execution_id  id    the execution
-- ARGV  reason        text  for people
-- Replies
--   OK    place  the token for which a placement has to be offered, or empty
--   GONE         it is not the session's, and no suspect
--   BUSY         it drives the session's activity
-- @include lib/reset

if redis.call('SREM', suspects, execution_id) == 1 then
  if redis.call('SCARD', suspects) == 0 then
    no_deadline('suspect')
  end
  return done('OK', '')
elseif text('execution_id') ~= execution_id then
  return { 'GONE' }
elseif text('activity_execution') == execution_id or text('open_claim') ~= '' then
  return { 'BUSY' }
end

execution_event('agent.stopped', reason)
log_entry('agent.stopped', 'execution_id', execution_id, 'worker_id', text('worker_id'), 'reason', reason)
clear_execution('none')
if is_called() then
  -- Nothing is there to be called any more: the next execution begins without a resume token.
  return done('OK', (select(2, quiesced())))
end
local waiting = text('phase') == 'running' and text('activity') or ''
if waiting ~= '' then
  deadline('placement', tonumber(placement_ms))
end
return done('OK', waiting)
