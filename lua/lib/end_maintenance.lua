-- The one end of a maintenance job, whatever ended it.
--
-- @include lib/exit
-- @include lib/operation

-- Answers the token for which a placement has to be offered, or ''.
local function end_maintenance(outcome)
  set('maintenance', '')
  set('maintenance_last', text('activity'))
  set('maintenance_lost', outcome == 'escalated' and '1' or '')
  no_deadline('maintenance')
  settle_operation(outcome)
  local _, place = exit_decision(false, false)
  return place
end
