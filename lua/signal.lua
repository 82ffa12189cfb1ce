-- Let the end of a turn advance the present step, where the step asks for such a signal. It moves nothing by itself,
-- and its repeat signals no later step.
--
-- ARGV  claim_id  id  of the turn that signals; empty for a call by somebody else
-- Replies
--   OK              also for a turn whose step has been left: nothing is signalled then
--   DUPLICATE       done before
--   CONFLICT        this id was used for something else
--   NO_SESSION
--   SUPERSEDED why  the turn that signals is over
--   CLOSED
--   GONE            the session has no workflow
-- @include lib/ownership
-- @include lib/first_answer
-- @include lib/done

local first, conflicts = first_answer()
if conflicts then
  return { 'CONFLICT' }
elseif first then
  return { 'DUPLICATE' }
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif is_of_another_turn() then
  return { 'SUPERSEDED', why_stale() }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif text('workflow') == '' then
  return { 'GONE' }
end

if claim_id == '' or text('open_step_entry') == text('step_entry') then
  set('signalled', text('step_entry'))
end
keep_answer('signalled')
return done('OK')
