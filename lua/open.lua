-- Make a session, or change the policy of an open one.
--
-- ARGV  settlement          word  required or none
-- ARGV  lost_turns          word  fail or retry
-- ARGV  retries             int   attempts of one message
-- ARGV  after_error         word  park or continue
-- ARGV  on_handler_failure  word  continue or park
-- ARGV  workflow_name       id    puts a session that is on none on this workflow; empty leaves it
-- ARGV  start_step          word  the step that such a session enters
-- ARGV  next_entry          id    for that entry
-- Replies
--   OK      created  1 for a new session, 0 for one whose policy was changed
--   WORKFLOW  name    the session is on that one; or a workflow, which needs settlement, was asked for without
--   CLOSED           closing or closed, until retention removes it
-- @include lib/activity
-- @include lib/entry

if text('lifecycle') ~= '' and text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
end
local created, current = text('schema') == '', text('workflow')
local goes_on = current ~= '' and current or workflow_name
if workflow_name ~= '' and goes_on ~= workflow_name or goes_on ~= '' and settlement == 'none' then
  return { 'WORKFLOW', goes_on }
end

set('settlement', settlement)
set('lost_turns', lost_turns)
set('retries', retries)
set('after_error', after_error)
set('on_handler_failure', on_handler_failure)
if created then
  set('schema', '1')
  set('lifecycle', 'open')
  set('phase', 'idle')
  set('opened_ms', now)
  set('status_ms', now)
  redis.call('ZADD', sessions, int(now), session_id)
  deadline('retention', tonumber(retention_idle_ms))
  log_entry('session.opened')
  count('opened')
end
if workflow_name ~= '' and current == '' then
  set('workflow', workflow_name)
  begin_entry(start_step, next_entry)
end
done('OK')
return { 'OK', created and '1' or '0' }
