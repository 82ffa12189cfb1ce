-- A person answers: the agent that waits gets it, else it is the next prompt. The first answer wins.
--
-- ARGV  question_id  id  the question
-- ARGV  token        id  the activity that this call may start
-- Replies
--   OK          placement sequence place  delivered: to the agent that waits; else as put_first
--   DUPLICATE   placement sequence        the first answer
--   CONFLICT                              this id was used with another text
--   NO_SESSION
--   CLOSED
--   STALE                                 the question was answered, has expired, or a later turn has opened
--   FULL        messages bytes
-- @include lib/insert
-- @include lib/batch
-- @include lib/operation
-- @include lib/question
-- @include lib/activity

local known = known_message()
if known then
  return known
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif text('question_id') ~= question_id then
  return { 'STALE' }
end
local is_open = text('open_claim') ~= '' and text('open_turn') == text('question_turn') and not is_stopping()
local is_delivered = is_open and text('question_waits') ~= ''
local full = not is_delivered and no_room()
if full then
  return full
end

end_question('answered', 'message_id', message_id, 'text', shown(body))
local sequence, placement, place = insert('next-turn', true, '1', 'answer', '0'), 'queued', ''
if is_delivered then
  -- It is a message of the turn from here on: used up with it, or put back with it.
  placement = 'delivered'
  take({ message_id }, text('open_turn'))
  set('open_answered', question_id)
  set('open_answer', message_id)
  tell_worker('answer', session_id, question_id)
elseif text('phase') == 'idle' then
  placement, place = 'started', start_activity(token) and token or ''
elseif is_open then
  placement = 'latched'
  begin_operation(message_id, 'silent')
elseif text('phase') == 'maintenance' or is_stopping() then
  placement = 'latched'
end
keep_answer(placement, sequence)
return done('OK', placement, sequence, place)
