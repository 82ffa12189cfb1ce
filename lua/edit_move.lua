-- Put a pending message before another one, in that one's list.
--
-- ARGV  before  id  the message that it goes before; empty for the end of its own list
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
--   GONE        one of the two is not pending
-- @include lib/edit

local refused = edit_refused()
if refused then
  return refused
end
local info = info_of(message_id)
local into = before == '' and info.list or info_of(before).list
if not into or before ~= '' and (before == message_id or not redis.call('LPOS', key_of(into), before)) then
  return { 'GONE', before }
end

redis.call('LREM', key_of(info.list), 1, message_id)
if before == '' then
  redis.call('RPUSH', key_of(into), message_id)
else
  redis.call('LINSERT', key_of(into), 'BEFORE', before, message_id)
end
info.list = into
write_info(message_id, info)
log_entry('inbox.moved', 'message_id', message_id, 'list', into, 'before', before)
return edited()
