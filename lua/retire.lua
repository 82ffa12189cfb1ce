-- FLAGS allow-oom
-- A driver gives its activity up with nothing open, and its execution with it.
--
-- ARGV  token         id    the activity
-- ARGV  execution_id  id    the execution that accepted it
-- ARGV  error_text    text  why it could not start; empty when its worker is leaving
-- Replies
--   GONE      place  the session is idle
--   RESTARTED place  a new activity began under next_token; place: offer a placement for it, or empty
--   SUPERSEDED       not the session's activity, or a prompt is open
-- @include lib/exit
-- @include lib/done

local repeated = restarted_before()
if repeated then
  return repeated
elseif token == '' or text('activity') ~= token or text('activity_execution') ~= execution_id or text('open_claim') ~= '' then
  return { 'SUPERSEDED' }
end

local failed = error_text ~= ''
if failed then
  log_entry('error', 'where', 'start', 'message', error_text, 'execution_id', execution_id)
end
execution_event(failed and 'agent.failed' or 'agent.stopped', failed and error_text or 'worker is leaving')
clear_execution(failed and 'failed' or 'none')
return done(exit_decision(false, failed))
