-- A message that a client puts into the inbox: known again by its id, within the limits.
--
-- ARGV  message_id        id     also the operation id
-- ARGV  body              bytes  opaque
-- ARGV  sender            text   for people, no spaces
-- ARGV  max_inbox         int    pending messages
-- ARGV  max_inbox_bytes   int    bytes of their bodies
-- @include lib/first_answer
-- @include lib/inbox

-- The reply to a repeat or a conflict, or nil: an id that is pending or in flight is a repeat without a receipt too.
local function known_message()
  local answer, conflicts = first_answer()
  local info = info_of(message_id)
  if not answer and not info.sequence then
    return nil
  elseif conflicts or not answer and info.rest:match('^%S+') ~= digest then
    return { 'CONFLICT' }
  end
  return answer and { 'DUPLICATE', unpack(answer) } or { 'DUPLICATE', 'queued', info.sequence }
end

local function no_room()
  local waiting, bytes = pending(), number('inbox_bytes')
  if waiting >= tonumber(max_inbox) or bytes + #body > tonumber(max_inbox_bytes) then
    return { 'FULL', int(waiting), int(bytes) }
  end
  return nil
end

-- Answers the message's sequence.
local function insert(into, first, wakes, kind, of_guard)
  local sequence = int(number('sequence') + 1)
  set('sequence', sequence)
  add(message_id, body, { sequence = sequence, wake = wakes, list = into, kind = kind, attempt = 0, guard = of_guard,
    rest = digest .. ' ' .. sender }, first)
  return sequence
end
