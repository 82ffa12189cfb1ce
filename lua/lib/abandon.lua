-- What a session that is closed leaves behind: the question that is open, and the entry into a step.
--
-- @include lib/question
-- @include lib/entry

local function abandon_flow()
  expire_question('closed')
  if text('entering') ~= '' then
    fail_entry('the session is closed')
  end
end
