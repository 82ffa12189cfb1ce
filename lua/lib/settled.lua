-- The end of a turn's settlement.
--
-- @include lib/log
-- @include lib/deadline
-- @include lib/activity

local function settled(outcome)
  log_entry('turn.settled', 'turn', text('last_turn'), 'generation', text('last_generation'),
    'execution_id', text('last_execution'), 'outcome', outcome)
  set('unsettled', '')
  set('handler_failures', '')
  set('unsettled_cancel', '')
  set('settled_outcome', outcome)
  no_deadline('settlement')
  count('settled')
end
