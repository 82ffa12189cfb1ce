-- The question that a turn has asked. It outlives the turn's end.
--
-- @include lib/record
-- @include lib/deadline
-- @include lib/log

local function end_question(kind, ...)
  log_entry('question.' .. kind, 'question_id', text('question_id'), 'turn', text('question_turn'), ...)
  for _, field in ipairs({ 'question_id', 'question_turn', 'question_waits' }) do
    set(field, '')
  end
  no_deadline('question')
end

local function expire_question(why)
  if text('question_id') ~= '' then
    end_question('expired', 'why', why)
  end
end
