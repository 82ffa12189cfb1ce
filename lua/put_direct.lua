-- Put a direct prompt first in line. It stops nothing; it waits for what came before, within a bound of its own.
--
-- ARGV  token         id    the activity that this call may start
-- ARGV  wait_ms       ms    how long it may stay in line
-- ARGV  behind_ms     ms    the most of that, behind a prompt that is owed or unsettled, or a step that is being entered
-- Replies
--   OK            placement sequence place  place: the token for which a placement has to be offered, or empty
--   DUPLICATE     placement sequence        the first answer
--   CONFLICT                                this id was used with another body or other options
--   NO_SESSION
--   CLOSED
--   FULL          messages bytes
--   GUARD_LOST                              the number is no longer the guard's
--   RESETTING     reset_id                  it does not wait behind a reset
--   OWED          message id                another direct prompt waits already
-- @include lib/fence
-- @include lib/insert
-- @include lib/overdue
-- @include lib/direct

local known = known_message()
if known then
  return known
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif has_lost_guard() then
  return { 'GUARD_LOST' }
end
local place = apply_overdue()
local full = no_room()
if is_resetting() then
  return refuse('RESETTING', text('reset_id'))
elseif has_direct() and not is_direct_overdue() and not is_direct_parked() then
  return refuse('OWED', text('direct'))
elseif full then
  return refuse(unpack(full))
end

-- A caller that died before it took its prompt back leaves the line to the next.
if is_direct_overdue() then
  drop_direct('expired')
end
set('withdrawn', '')
local waits = text('open_claim') ~= '' or text('unsettled') ~= '' or text('entering') ~= ''
local wait, behind = tonumber(wait_ms), tonumber(behind_ms)
local sequence, placement = insert('next-turn', true, '1', 'direct', guard_number), 'queued'
set('direct', message_id)
set('direct_ms', now + (waits and math.min(wait, behind) or wait))
if text('phase') == 'idle' then
  placement = waits and 'latched' or 'started'
  place = start_activity(token) and token or ''
elseif waits or text('phase') == 'maintenance' then
  placement = 'latched'
end
hint_waiting()
keep_answer(placement, sequence)
return done('OK', placement, sequence, place)
