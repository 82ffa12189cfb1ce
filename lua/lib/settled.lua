-- The end of a turn's settlement.
--
-- @include lib/log
-- @include lib/deadline
-- @include lib/activity

local UNSETTLED = { 'turn', 'generation', 'claim', 'execution', 'worker', 'reason', 'cancel_kind', 'attempt', 'entry', 'ms' }

-- A driver that waits for it is told: its session is running, with nothing open.
local function settled(outcome)
  log_entry('turn.settled', 'turn', text('unsettled_turn'), 'generation', text('unsettled_generation'),
    'execution_id', text('unsettled_execution'), 'outcome', outcome)
  for _, field in ipairs(UNSETTLED) do
    set('unsettled_' .. field, '')
  end
  set('handler_failures', '')
  no_deadline('settlement')
  count('settled')
  if text('phase') == 'running' and text('open_claim') == '' then
    hint_worker()
  end
end
