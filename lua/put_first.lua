-- Put a message first in line and stop what runs, both or neither: a replacement or an interrupt.
--
-- ARGV  kind          word  replace or parent (an interrupt, which parks what was queued before)
-- ARGV  token         id    the activity that this call may start
-- Replies
--   OK            placement sequence place  place: the token for which a placement has to be offered, or empty
--   DUPLICATE     placement sequence        the first answer
--   CONFLICT                                this id was used with another body or other options
--   NO_SESSION
--   CLOSED
--   FULL          messages bytes
--   GUARD_LOST                              the number is no longer the guard's
--   TURN_CHANGED                            the expected turn or generation is not current
--   OPERATION     kind                      an operation that can't be joined is recorded
--   GONE          message id                a chosen message is not pending
-- @include lib/fence
-- @include lib/insert
-- @include lib/stop
-- @include lib/chosen

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
local place_offered = apply_overdue()
local stopping, other, resetting = is_stopping(), text('cancel_kind'), is_resetting()
local missing = missing_choice()
if not is_expected() then
  return refuse('TURN_CHANGED')
elseif missing then
  return refuse('GONE', missing)
elseif body ~= '' and no_room() then
  return refuse(unpack(no_room()))
elseif stopping and not resetting and (kind ~= 'parent' or is_exclusive(other)) then
  return refuse('OPERATION', other)
end

-- A parent meets a person's stop: its message waits its turn, and nothing is stopped for it.
local yields, phase, open = stopping and other == 'user', text('phase'), text('open_claim') ~= ''
local interrupts = kind == 'parent' and not yields
if interrupts and (phase ~= 'idle' or text('entering') ~= '') then
  park(is_chosen(text('direct')))
end
if interrupts then
  note_late_stop(kind)
end
local sequence = body ~= '' and insert('next-turn', not yields, '1', kind, guard_number) or put_chosen()
if interrupts and text('entering') ~= '' and text('entry_after') == '' then
  set('entry_after', body ~= '' and message_id or last_chosen())
end
local placement, place, _ = 'queued', place_offered, nil
if phase == 'idle' then
  placement = 'started'
  place = start_activity(token) and token or ''
elseif open or phase == 'maintenance' then
  placement = 'latched'
  if not resetting and (interrupts or kind == 'replace' and open) then
    place = stop(message_id, kind) or place
  end
elseif interrupts then
  placement = 'started'
  _, place = exit_decision(false, false)
end
keep_answer(placement, sequence)
return done('OK', placement, sequence, place)
