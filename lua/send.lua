-- Put a message into the inbox; a waking one starts an idle session in the same script.
--
-- ARGV  list     word  next-turn or next-step
-- ARGV  wake     flag  1 when the message should run
-- ARGV  on_busy  word  enqueue, steer or reject: what a session that is not idle does
-- ARGV  token    id    the activity that this send may start
-- Replies
--   OK          placement sequence token  token: a placement has to be offered for it, or empty
--   DUPLICATE   placement sequence        the first answer; nothing was written
--   CONFLICT                              this id was sent with another body or other options
--   NO_SESSION
--   CLOSED
--   BUSY        phase                     on_busy is reject and the session is not idle
--   FULL        messages bytes            what is pending
-- @include lib/activity
-- @include lib/insert
-- @include lib/stopping

local known = known_message()
if known then
  return known
end
local lifecycle, phase = text('lifecycle'), text('phase')
if lifecycle == '' then
  return { 'NO_SESSION' }
elseif lifecycle == 'closed' then
  return { 'CLOSED' }
elseif on_busy == 'reject' and phase ~= 'idle' then
  return { 'BUSY', phase }
end
local full = no_room()
if full then
  return full
end

if on_busy == 'steer' and text('open_claim') ~= '' then
  list = 'next-step'
end
if is_stopping() and wake == '1' then
  list = 'next-turn'
end
local sequence = insert(list, false, wake, 'send', '0')
local placement, place = 'queued', ''
if lifecycle == 'closing' then
  placement = 'parked'
elseif phase == 'idle' and wake == '1' then
  placement = 'started'
  place = start_activity(token) and token or ''
elseif phase == 'idle' then
  placement = 'parked'
elseif (is_stopping() and wake == '1') or phase == 'maintenance' then
  placement = 'latched'
end
keep_answer(placement, sequence)
return done('OK', placement, sequence, place)
