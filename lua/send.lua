-- Put a message into the inbox; a waking one starts an idle session in the same script.
--
-- KEYS  receipt           string  the first answer to this message id
-- ARGV  message_id        id      also the operation id
-- ARGV  body              bytes   opaque
-- ARGV  digest            hex     of the body and the options, to know a repeat from a conflict
-- ARGV  list              word    next-turn or next-step
-- ARGV  wake              flag    1 when the message should run
-- ARGV  on_busy           word    enqueue, steer or reject: what a session that is not idle does
-- ARGV  sender            text    for people, no spaces
-- ARGV  token             id      the activity that this send may start
-- ARGV  receipts_ms       ms      how long a repeat is recognised
-- ARGV  max_inbox         int     pending messages
-- ARGV  max_inbox_bytes   int     bytes of their bodies
-- Replies
--   OK          placement sequence token  token: a placement has to be offered for it, or empty
--   DUPLICATE   placement sequence        the first answer; nothing was written
--   CONFLICT                              this id was sent with another body or other options
--   NO_SESSION
--   CLOSED
--   BUSY        phase                     on_busy is reject and the session is not idle
--   FULL        messages bytes            what is pending
-- @include lib/activity
-- @include lib/inbox

local first = redis.call('GET', receipt)
local known = info_of(message_id)
if first or known.sequence then
  local was, placement, sequence = (first or ''):match('^(%S+) (%S+) (%d+)$')
  was = was or known.rest:match('^%S+ (%S+)')
  if was ~= digest then
    return { 'CONFLICT' }
  end
  return { 'DUPLICATE', placement or 'queued', sequence or known.sequence }
end
local lifecycle, phase = text('lifecycle'), text('phase')
if lifecycle == '' then
  return { 'NO_SESSION' }
elseif lifecycle == 'closed' then
  return { 'CLOSED' }
elseif on_busy == 'reject' and phase ~= 'idle' then
  return { 'BUSY', phase }
end
local waiting, bytes = pending(), number('inbox_bytes')
if waiting >= tonumber(max_inbox) or bytes + #body > tonumber(max_inbox_bytes) then
  return { 'FULL', int(waiting), int(bytes) }
end

if on_busy == 'steer' and text('open_claim') ~= '' then
  list = 'next-step'
end
local sequence = int(number('sequence') + 1)
set('sequence', sequence)
set('inbox_bytes', bytes + #body)
redis.call('RPUSH', key_of(list), message_id)
redis.call('HSET', messages, message_id, body)
write_info(message_id, { sequence = sequence, wake = wake, list = list, kind = 'send', attempt = 0,
  rest = '0 ' .. digest .. ' ' .. sender })
if wake == '1' then
  redis.call('ZADD', awake, sequence, message_id)
end
log_entry('inbox.inserted', 'message_id', message_id, 'list', list, 'sequence', sequence, 'wake', wake)
local placement, place = 'queued', ''
if lifecycle == 'closing' then
  placement = 'parked'
elseif phase == 'idle' and wake == '1' then
  placement = 'started'
  place = start_activity(token) and token or ''
elseif phase == 'idle' then
  placement = 'parked'
elseif phase == 'maintenance' then
  placement = 'latched'
end
redis.call('SET', receipt, digest .. ' ' .. placement .. ' ' .. sequence, 'PX', receipts_ms)
return done('OK', placement, sequence, place)
