-- Begin a context reset: stop exactly what is open, then let the worker replace the provider's session.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  reset_id      id    made by the caller; a repeat joins the reset of that id
-- ARGV  entry_id      id    the step entry that asks for it, or empty
-- ARGV  guard_number  int   the caller's guard
-- ARGV  reset_ms      ms    until a reset that has not ended has failed
-- Replies
--   OK          stage place  running, committed, failed, or ended: how, its log tells; place: offer a placement for that
--                            token, or empty
--   CONFLICT                 this id was used for something else
--   NO_SESSION
--   CLOSED
--   GONE                     that entry is over
--   GUARD_LOST               the number is no longer the guard's
--   RESETTING   reset_id     another reset is on
--   OPERATION   kind         a cancel is pending: a reset never inherits another's
--   BUSY        phase        a maintenance job runs
-- @include lib/first_answer
-- @include lib/overdue

local first, conflicts = first_answer()
if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('reset_id') == reset_id then
  return { 'OK', 'running', '' }
elseif text('reset_last') == reset_id then
  return { 'OK', text('reset_outcome'), placed_before() }
elseif conflicts then
  return { 'CONFLICT' }
elseif first then
  -- Others have begun since: a packet that was under way all the time is no new reset.
  return { 'OK', 'ended', '' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif entry_id ~= '' and text('entering') ~= entry_id then
  return { 'GONE' }
elseif redis.call('HGET', guard, 'number') ~= guard_number then
  return { 'GUARD_LOST' }
end
apply_overdue()
if is_resetting() then
  return refuse('RESETTING', text('reset_id'))
elseif is_stopping() then
  return refuse('OPERATION', text('cancel_kind'))
elseif text('phase') == 'maintenance' then
  return refuse('BUSY', text('phase'))
end

keep_answer('reset')
set('reset_id', reset_id)
deadline('reset', tonumber(reset_ms))
log_entry('reset.started', 'reset_id', reset_id)
local place
if redis.call('SCARD', suspects) > 0 then
  -- It would fail after the stop: what runs goes on.
  place = select(2, fail_reset(MAY_LIVE))
elseif text('open_claim') ~= '' then
  place = stop(reset_id, 'system') or ''
else
  place = select(2, quiesced())
end
return done('OK', is_resetting() and 'running' or text('reset_outcome'), place)
