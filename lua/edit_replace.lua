-- Give a pending message another body; its place, its id and its wish to run stay.
--
-- ARGV  body             bytes  opaque
-- ARGV  max_inbox_bytes  int    bytes of all pending bodies
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
--   GONE        it is not pending
--   FULL        messages bytes
-- @include lib/edit

local refused = edit_refused()
if refused then
  return refused
end
local bytes = number('inbox_bytes') - redis.call('HSTRLEN', messages, message_id) + #body
if bytes > math.max(number('inbox_bytes'), tonumber(max_inbox_bytes)) then
  return { 'FULL', int(pending()), int(number('inbox_bytes')) }
end

set('inbox_bytes', math.max(0, bytes))
redis.call('HSET', messages, message_id, body)
log_entry('inbox.replaced', 'message_id', message_id, 'list', info_of(message_id).list)
return edited()
