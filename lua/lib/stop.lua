-- What a stop is meant for, and what it does to what is queued.
--
-- ARGV  expected_turn        int  0 for whatever runs
-- ARGV  expected_generation  int  0 for whatever runs
-- @include lib/overdue
-- @include lib/direct

local function is_expected()
  local turn, generation = number('open_turn'), number('open_generation')
  if text('open_claim') == '' and text('unsettled') ~= '' then
    turn, generation = number('last_turn'), number('last_generation')
  end
  return (expected_turn == '0' or tonumber(expected_turn) == turn)
    and (expected_generation == '0' or tonumber(expected_generation) == generation)
end

-- A parking stop also discards the direct prompt that waits, of which there is one at most: its caller waits for it, and
-- would not know that it was parked.
local function park(spares_direct)
  raise_mark()
  if not spares_direct then
    drop_direct('cancelled')
  end
end

-- A stop that finds a turn ended but unsettled counts as a stop of that turn for the workflow.
local function note_late_stop(kind)
  if text('open_claim') == '' and text('unsettled') ~= '' and outranks(kind, text('unsettled_cancel')) then
    set('unsettled_cancel', kind)
  end
end
