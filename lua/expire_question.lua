-- FLAGS allow-oom
-- Nobody answered in time. The turn that asked is stopped silently if it is open; if it has ended, was not evaluated
-- because of the question alone, and no turn has opened since, it is evaluated now. One that was stopped while its
-- question was open counts as no completion, and never will: nobody expects a stop to lead on an hour later.
--
-- Replies
--   OK
--   NOT_DUE
--   GONE     no question is pending
-- @include lib/due
-- @include lib/question
-- @include lib/evaluation
-- @include lib/end_prompt

if not is_due('question') then
  return { 'NOT_DUE' }
elseif text('question_id') == '' then
  no_deadline('question')
  return { 'GONE' }
end

local id, turn = text('question_id'), text('question_turn')
expire_question('timeout')
if text('open_claim') ~= '' then
  if text('open_turn') == turn and not is_stopping() then
    begin_operation(id, 'silent')
  end
elseif text('last_turn') == turn and text('unsettled') == '' and text('settled_outcome') == 'question'
  and cancelled_by() == '' then
  set('last_entry', publish_ready('required'))
  set('unsettled', '1')
  deadline('settlement', tonumber(settlement_ms))
end
return done('OK')
