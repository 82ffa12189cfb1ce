-- Take a pending message out of the inbox.
--
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
--   GONE        it is not pending
-- @include lib/edit

local refused = edit_refused()
if refused then
  return refused
end

local list = info_of(message_id).list
redis.call('LREM', key_of(list), 1, message_id)
redis.call('ZREM', awake, message_id)
set('inbox_bytes', math.max(0, number('inbox_bytes') - redis.call('HSTRLEN', messages, message_id)))
forget({ message_id })
log_entry('inbox.discarded', 'message_id', message_id, 'list', list, 'why', 'removed')
return edited()
