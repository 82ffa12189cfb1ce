-- FLAGS allow-oom
-- Nobody accepted an activity in time: it is offered again, at doubling intervals up to a minute.
--
-- Replies
--   PLACE    token offer  offer a placement, as this offer
--   OK                    its live execution was told again
--   NOT_DUE
--   GONE                  nothing waits for a placement
-- @include lib/due
-- @include lib/activity

if not is_due('placement') then
  return { 'NOT_DUE' }
elseif text('phase') ~= 'running' or text('activity_execution') ~= '' then
  no_deadline('placement')
  return { 'GONE' }
end

local offers = number('offers') + 1
set('offers', offers)
deadline('placement', math.min(60000, tonumber(placement_ms) * 2 ^ offers))
if is_live() then
  hint_worker()
  return done('OK')
end
return done('PLACE', text('activity'), int(offers))
