-- A worker takes an activity that was offered to it, under a fresh execution.
--
-- ARGV  token         id  the activity that was offered
-- ARGV  execution_id  id  minted by the worker for this acceptance; it becomes the session's execution
-- ARGV  worker_id     id  who hosts it
-- ARGV  lease_ms      ms  the worker's right to it, until its heartbeat renews it
-- ARGV  start_ms      ms  until it must have booted
-- Replies
--   OK          resume_token   the provider's session to resume, or empty
--   NO_SESSION
--   SUPERSEDED                 the offer is of an activity that is over
--   TAKEN       execution_id   another execution accepted it
--   LIVE        worker_id      that worker hosts a live execution, and was told
-- @include lib/activity

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('phase') ~= 'running' or text('activity') ~= token then
  return { 'SUPERSEDED' }
elseif text('activity_execution') == execution_id then
  return { 'OK', text('resume_token') }
elseif text('activity_execution') ~= '' then
  return { 'TAKEN', text('activity_execution') }
elseif redis.call('SISMEMBER', suspects, execution_id) == 1 then
  return { 'SUPERSEDED' }
elseif is_live() then
  redis.pcall('PUBLISH', channels .. 'control:' .. text('worker_id'), 'run ' .. session_id .. ' ' .. token)
  return { 'LIVE', text('worker_id') }
end

if text('execution_id') ~= '' then
  void_execution('lease expired')
end
set('execution_id', execution_id)
set('worker_id', worker_id)
set('execution_status', 'starting')
set('activity_execution', execution_id)
no_deadline('placement')
deadline('lease', tonumber(lease_ms))
deadline('start', tonumber(start_ms))
return done('OK', text('resume_token'))
