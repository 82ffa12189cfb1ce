-- A change of what is pending, by its operation id: it wakes nobody, and gives its first answer again.
--
-- @include lib/first_answer
-- @include lib/inbox
-- @include lib/done

-- The reply that refuses or repeats it, or nil.
local function edits_refused()
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
  return nil
end

local function edited()
  keep_answer('done')
  return done('OK')
end
