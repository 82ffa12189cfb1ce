-- Who drives the open prompt: all three parts are compared, wherever one of them matters.
--
-- ARGV  execution_id  id   the execution that the prompt was dispatched to
-- ARGV  generation    int  its number
-- ARGV  claim_id      id   the random name of its claim
-- @include lib/record

local function differs_from(prefix)
  if text(prefix .. 'execution') ~= execution_id then
    return 'execution'
  elseif number(prefix .. 'generation') ~= tonumber(generation) then
    return 'generation'
  elseif text(prefix .. 'claim') ~= claim_id then
    return 'claim'
  end
  return nil
end

local function owns()
  return text('open_claim') ~= '' and not differs_from('open_')
end

-- A driver's own end gets its first answer when it is repeated, whatever reason it was given; an end that was forced on
-- it does not. A driver has its answer before it claims again: once another prompt is open, the same completion is late.
local function is_own_repeat()
  return text('open_claim') == '' and text('last_finished') ~= '' and not differs_from('last_')
end

-- For calls that others than a turn may make too: theirs name no claim, execution or generation.
local function is_of_another_turn()
  return claim_id ~= '' and not owns()
end

-- Why a completion does not count: the first thing that differs from the open prompt, or else from the last one.
local function why_stale()
  return differs_from(text('open_claim') ~= '' and 'open_' or 'last_') or 'settled'
end
