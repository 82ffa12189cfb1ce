-- One change of one pending message: never in neither list, never a wake, the first answer for a repeat.
--
-- ARGV  message_id  id  the message
-- @include lib/first_answer
-- @include lib/inbox
-- @include lib/done

-- The reply that refuses or repeats the edit, or nil.
local function edit_refused()
  local answer, conflicts = first_answer()
  if conflicts then
    return { 'CONFLICT' }
  elseif answer then
    return { 'OK' }
  elseif text('schema') == '' then
    return { 'NO_SESSION' }
  elseif text('lifecycle') ~= 'open' then
    return { 'CLOSED' }
  end
  if not is_pending(message_id) then
    return { 'GONE' }
  end
  return nil
end

local function edited()
  keep_answer('done')
  return done('OK')
end
