-- FLAGS allow-oom
-- A replica has carried a step's entry out, or could not. The step's prompt goes first in line, and the stream entry is
-- acknowledged whatever is found.
--
-- ARGV  entry_id    id     the entry; its repeat changes nothing
-- ARGV  event_id    id     the stream entry
-- ARGV  group       text   the replicas' group
-- ARGV  message_id  id     the prompt's: entry-<entry id>
-- ARGV  body        bytes  the step's prompt, or empty
-- ARGV  error_text  text   why the step can't be entered, or empty
-- Replies
--   OK    place  the token for which a placement has to be offered, or empty; the same again for a repeat
--   GONE         the entry has ended otherwise
-- @include lib/entry_end
-- @include lib/done

-- A client of the scripts may have used the id: its message is not overwritten.
local function is_taken()
  return body ~= '' and redis.call('HEXISTS', message_info, message_id) == 1
end

-- First in line, but not before an interrupt that came during the entry, and parked it.
local function put_prompt()
  add(message_id, body, { sequence = text('entry_sequence'), wake = '1', list = 'next-turn', kind = 'entry',
    attempt = 0, guard = '0', rest = '- workflow' }, true)
  if text('entry_dropped') ~= '' then
    discard(message_id, 'cancelled')
  elseif text('entry_after') ~= '' and redis.call('LPOS', next_turn, text('entry_after')) then
    redis.call('LREM', next_turn, 1, message_id)
    redis.call('LINSERT', next_turn, 'AFTER', text('entry_after'), message_id)
    local place = redis.call('LPOS', next_turn, message_id)
    log_entry('inbox.moved', 'message_id', message_id, 'list', 'next-turn',
      'before', redis.call('LINDEX', next_turn, place + 1) or '')
  end
end

redis.call('XACK', events, group, event_id)
if text('entered_event') == event_id then
  return { 'OK', placed_before() }
elseif entry_id == '' or text('entering') ~= entry_id then
  return { 'GONE' }
end

if error_text ~= '' or is_taken() then
  give_entry_up(error_text ~= '' and error_text or 'a message has the id of the step\'s prompt')
else
  set('entering', '')
  no_deadline('entry')
  log_entry('step.entered', 'step', text('step'), 'entry_id', entry_id)
  announce('step.entered', entry_id)
  if body ~= '' then
    put_prompt()
  end
end
set('entered_event', event_id)
return done('OK', go_on_after_entry())
