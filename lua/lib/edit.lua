-- A change of one pending message: it is never in neither list.
--
-- ARGV  message_id  id  the message
-- @include lib/edits

local function edit_refused()
  local refused = edits_refused()
  if refused or is_pending(message_id) then
    return refused
  end
  return { 'GONE' }
end
