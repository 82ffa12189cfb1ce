-- Put a message first in line and stop what runs, both or neither: a replacement, an interrupt, a direct prompt.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  kind          word  replace, parent (an interrupt) or direct (which stops nothing)
-- ARGV  guard_number  int   the caller's guard, 0 for none
-- ARGV  token         id    the activity that this call may start
-- ARGV  chosen...     id    pending messages that go first in line instead of a new text
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
--   OWED          generation                a direct prompt, and an earlier one has not ended
--   GONE          message id                a chosen message is not pending
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
elseif guard_number ~= '0' and redis.call('HGET', guard, 'number') ~= guard_number then
  return { 'GUARD_LOST' }
end
local place_offered = apply_overdue()
local stopping, other = is_stopping(), text('cancel_kind')
local missing = missing_choice()
if not is_expected() then
  return refuse('TURN_CHANGED')
elseif missing then
  return refuse('GONE', missing)
elseif body ~= '' and no_room() then
  return refuse(unpack(no_room()))
elseif stopping and (kind ~= 'parent' or is_exclusive(other)) then
  return refuse('OPERATION', other)
elseif kind == 'direct' and text('open_claim') ~= '' then
  return refuse('OWED', text('open_generation'))
end

-- A parent meets a person's stop: its message waits its turn, and nothing is stopped for it.
local yields = stopping and other == 'user'
if kind == 'parent' and not yields and text('phase') ~= 'idle' then
  raise_mark()
end
local sequence = body ~= '' and insert('next-turn', yields and 'RPUSH' or 'LPUSH', '1', kind, guard_number) or put_chosen()
local placement, place = 'queued', place_offered
if text('phase') == 'idle' then
  placement = 'started'
  place = start_activity(token) and token or ''
elseif text('phase') == 'maintenance' then
  placement = 'latched'
elseif text('open_claim') ~= '' and kind ~= 'direct' then
  placement = 'latched'
  if stopping and not yields then
    join_operation(kind)
  elseif not stopping then
    begin_operation(message_id, kind)
    if is_over('lease') then
      place = escalate('its worker is gone')
    end
  end
end
keep_answer(placement, sequence)
return done('OK', placement, sequence, place)
