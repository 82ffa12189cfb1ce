-- What follows the end of a step's entry: a move that came meanwhile, or the work that waited for it.
--
-- ARGV  next_entry  id  for the entry that a pending move may begin
-- @include lib/entry
-- @include lib/exit

-- An activity with nothing open ends, and nothing follows it, since all is parked; an open turn goes on.
local function give_entry_up(why)
  fail_entry(why)
  if text('phase') == 'running' and text('open_claim') == '' then
    exit_decision(false, true)
    hint_worker()
  else
    raise_mark()
  end
end

-- What is awake now was awake before, or is the entry's own prompt. Answers the token for which a placement has to be
-- offered, or ''.
local function go_on_after_entry()
  -- One that was deferred waits for the settlement of the turn that is under way.
  if text('move_deferred') == '' or text('open_claim') == '' and text('unsettled') == '' then
    apply_move(next_entry)
  end
  if text('phase') == 'idle' and text('lifecycle') == 'open' and has_awake() then
    return start_activity(next_token) and next_token or ''
  end
  hint_waiting()
  return ''
end
