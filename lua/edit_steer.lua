-- Move a pending message to the end of next-step, so that the running turn takes it at its next boundary.
--
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
--   GONE        it is not pending
--   OPERATION   kind  the turn is being stopped: it would take nothing more
-- @include lib/edit
-- @include lib/stopping

local refused = edit_refused()
if refused then
  return refused
elseif is_stopping() then
  return { 'OPERATION', text('cancel_kind') }
end

local info = info_of(message_id)
redis.call('LREM', key_of(info.list), 1, message_id)
info.list = 'next-step'
write_info(message_id, info)
redis.call('RPUSH', next_step, message_id)
log_entry('inbox.moved', 'message_id', message_id, 'list', 'next-step')
return edited()
