-- Discard everything pending; what runs goes on.
--
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
-- @include lib/edits

local refused = edits_refused()
if refused then
  return refused
end

discard_all('cleared')
return edited()
