-- What a stop is meant for, and what it does to what is queued.
--
-- ARGV  expected_turn        int  0 for whatever runs
-- ARGV  expected_generation  int  0 for whatever runs
-- @include lib/overdue

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
  if not spares_direct and is_pending(text('direct')) then
    discard(text('direct'), 'cancelled')
  end
end
