-- What a turn's end may do to its session's workflow. Read when its settlement begins, and again when it is written.
--
-- @include lib/stopping

-- The kind of the stop that the turn counts as stopped by: one made between its end and its settlement counts as well.
local function cancelled_by()
  local late, kind = text('unsettled_cancel'), text('last_cancel_kind')
  return late ~= '' and outranks(late, kind) and late or kind
end

-- A turn is evaluated only against the step entry that it began in. What runs in a step that could not be entered does
-- not complete it: the step's own prompt never ran.
local function is_in_step()
  return text('workflow') ~= '' and text('entering') == '' and text('step_failed') == ''
    and text('last_step_entry') == text('step_entry')
end

local function is_finished()
  return text('last_reason') == 'completed' or text('last_reason') == 'max_tokens'
end

-- The first that fits of: none on a closing session, moved, question, evaluate, none. A move that came during an entry
-- waits for that.
local function evaluation()
  if text('lifecycle') ~= 'open' then
    return 'none'
  elseif text('move_step') ~= '' and text('last_returned') == '' and text('entering') == '' then
    return 'moved'
  elseif text('question_id') ~= '' and text('question_turn') == text('last_turn') then
    return 'question'
  end
  local kind, reason = cancelled_by(), text('last_reason')
  local is_stopped = is_finished() or reason == 'cancelled' or reason == 'escalated'
  return (kind == '' and is_finished() or kind == 'user' and is_stopped) and 'evaluate' or 'none'
end
