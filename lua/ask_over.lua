-- FLAGS allow-oom
-- The agent no longer waits for the answer to its question. The question stays.
--
-- ARGV  question_id  id    the question
-- ARGV  unheard      flag  1 when its answer was given to a turn whose agent had left before: it is the next prompt then
-- Replies
--   OK
--   GONE  it is no longer the session's question, or its answer not the open turn's
-- @include lib/ownership
-- @include lib/back
-- @include lib/operation
-- @include lib/done

-- It was no try of it: nobody has seen it. The places of the turn's last step boundary stay right.
local function give_back(id)
  local place = redis.call('LPOS', in_flight, id)
  redis.call('LREM', in_flight, 1, id)
  if place < number('open_step_first') then
    set('open_step_first', number('open_step_first') - 1)
  end
  put_first_again(id, info_of(id), 'why', 'unheard')
end

if unheard == '1' then
  if not owns() or text('open_answered') ~= question_id or is_stopping() then
    return { 'GONE' }
  end
  local id = text('open_answer')
  give_back(id)
  set('open_answered', '')
  set('open_answer', '')
  begin_operation(id, 'silent')
  return done('OK')
elseif text('question_id') ~= question_id then
  return { 'GONE' }
end

set('question_waits', '')
return done('OK')
