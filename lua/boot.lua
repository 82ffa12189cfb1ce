-- An execution is up: started, or restored from its resume token.
--
-- ARGV  execution_id  id    the execution that booted
-- ARGV  resume_token  text  what a later execution resumes from; empty leaves the stored one
-- Replies
--   OK
--   SUPERSEDED  the session has another execution, or none
-- @include lib/execution
-- @include lib/done

if text('execution_id') ~= execution_id then
  return { 'SUPERSEDED' }
elseif text('execution_status') ~= 'starting' then
  return { 'OK' }
end

set('execution_status', 'ready')
set('lost_starts', '')
if resume_token ~= '' then
  set('resume_token', resume_token)
end
no_deadline('start')
log_entry('agent.boot_ready', 'execution_id', execution_id, 'worker_id', text('worker_id'))
execution_event('agent.boot_ready', resume_token ~= '' and 'resumable' or 'started')
return done('OK')
