-- FLAGS allow-oom
-- The worker has replaced the provider's session, or could not.
--
-- ARGV  reset_id      id    the reset that it was told of
-- ARGV  execution_id  id    the execution that it hosts
-- ARGV  outcome       word  committed or failed
-- ARGV  resume_token  text  of the fresh context, with committed
-- ARGV  why           text  what went wrong, with failed
-- ARGV  called        flag  1 when the provider was called: after a failure nobody knows its context
-- Replies
--   OK          place  the token for which a placement has to be offered, or empty; the same again for a repeat
--   SUPERSEDED         the reset has ended, or the session has another execution
-- @include lib/reset
-- @include lib/done

if text('reset_last') == reset_id and text('reset_outcome') == outcome and text('reset_by') == execution_id then
  return { 'OK', placed_before() }
elseif text('reset_id') ~= reset_id or text('execution_id') ~= execution_id or not is_called() then
  return { 'SUPERSEDED' }
end

local place
if outcome == 'committed' then
  set('resume_token', resume_token)
  end_reset('committed', '')
  place = select(2, exit_decision(false, false))
elseif called == '1' then
  place = fail_call(why)
else
  place = select(2, fail_reset(why))
end
set('reset_by', execution_id)
return done('OK', place)
