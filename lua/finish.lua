-- FLAGS allow-oom
-- The driver of the open prompt reports its end, with what the agent said last.
--
-- ARGV  token         id     the activity that the driver runs
-- ARGV  reason        word   completed, max_tokens, cancelled, error, blocked or interrupted
-- ARGV  body          bytes  its text, or empty
-- ARGV  error_text    text   what went wrong, or empty
-- ARGV  resume_token  text   what a later execution resumes from; empty leaves the stored one
-- ARGV  undelivered   flag   1 when the adapter knows that the agent did not get the prompt
-- Replies
--   GO_ON             claim again under the same token
--   GONE      place   the session is idle
--   RESTARTED place   a new activity began under next_token; place: offer a placement for it, or empty
--   STALE     why     not the open prompt's: counted and logged, nothing else
--   NO_SESSION
-- @include lib/ownership
-- @include lib/speech
-- @include lib/lose_prompt
-- @include lib/reset
-- @include lib/done

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif is_own_repeat() then
  return restarted_before() or { token ~= '' and text('activity') == token and 'GO_ON' or 'GONE', '' }
elseif not owns() then
  local why = why_stale()
  log_entry('ready.stale', 'why', why, 'generation', generation, 'execution_id', execution_id)
  count('stale')
  count('stale.' .. why)
  return { 'STALE', why }
end

if body ~= '' then
  say()
end
if resume_token ~= '' then
  set('resume_token', resume_token)
end
local leaves, stopped = reason == 'interrupted', is_stopping()
local parks
if leaves or (undelivered == '1' and text('open_accepted') == '' and not stopped) then
  parks = lose_prompt(reason, error_text)
else
  end_prompt(reason, false, error_text)
  parks = (reason == 'error' or reason == 'blocked') and text('after_error') == 'park'
end
set('last_finished', '1')
if leaves then
  void_execution('worker is leaving')
end
local natural = reason == 'completed' or reason == 'max_tokens'
return done(leave(natural and not stopped, parks and not stopped, not leaves))
