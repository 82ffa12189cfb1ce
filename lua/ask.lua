-- The agent of the open turn asks a person something, and looks for the answer by asking the same again.
--
-- KEYS  events       stream  what replicas must act on
-- KEYS  messages     hash    id to body, pending and in flight only
-- ARGV  question_id  id      made by the caller
-- ARGV  body         bytes   the question
-- ARGV  question_ms  ms      until nobody has answered
-- Replies
--   OK                        asked, and not answered yet
--   ANSWERED     text         the answer
--   GONE                      the question has expired, or its answer went another way
--   BUSY         question_id  the turn has asked another one
--   SUPERSEDED   why          what differs, or that the turn is being stopped
-- @include lib/ownership
-- @include lib/first_answer
-- @include lib/stopping
-- @include lib/question
-- @include lib/acceptance
-- @include lib/done

if not owns() then
  return { 'SUPERSEDED', why_stale() }
elseif text('open_answered') == question_id then
  return { 'ANSWERED', redis.call('HGET', messages, text('open_answer')) or '' }
elseif text('question_id') == question_id then
  return { 'OK' }
elseif first_answer() then
  -- Also when another was asked since: a packet that was under way all the time asks nothing again.
  return { 'GONE' }
elseif is_stopping() then
  return { 'SUPERSEDED', 'stopping' }
elseif text('question_id') ~= '' then
  return { 'BUSY', text('question_id') }
end

accept_prompt()
keep_answer('asked')
set('question_id', question_id)
set('question_turn', text('open_turn'))
set('question_waits', '1')
deadline('question', tonumber(question_ms))
log_entry('question.asked', 'question_id', question_id, 'turn', text('open_turn'), 'text', body)
redis.call('XADD', events, '*', 'type', 'question.asked', 'session_id', session_id, 'execution_id', execution_id,
  'worker_id', text('worker_id'), 'reason', '', 'at_ms', int(now), 'question_id', question_id, 'turn', text('open_turn'),
  'text', body)
return done('OK')
