-- A step boundary of the open turn: its agent takes everything that waits in next-step.
--
-- ARGV  ordinal  int  1 for a turn's first boundary, one more for each
-- Replies
--   OK          id list kind attempt body for each message; the repeat of an ordinal gets the same batch again
--   SUPERSEDED  what differs
-- @include lib/ownership
-- @include lib/batch
-- @include lib/done
-- @include lib/stopping

if not owns() then
  return { 'SUPERSEDED', why_stale() }
elseif tonumber(ordinal) <= number('open_step') then
  return append_messages({ 'OK' }, number('open_step_first'), number('open_step_size'))
end

-- A turn that is being stopped takes nothing more: what it took would be lost with it.
local batch = is_stopping() and {} or redis.call('LRANGE', next_step, 0, -1)
set('open_step', ordinal)
set('open_step_first', redis.call('LLEN', in_flight))
set('open_step_size', #batch)
take(batch, text('open_turn'))
done('OK')
return append_messages({ 'OK' }, number('open_step_first'), number('open_step_size'))
