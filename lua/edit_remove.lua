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

discard(message_id, 'removed')
return edited()
