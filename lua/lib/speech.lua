-- What the agent of the open prompt says. Its first output, which may be empty, is the acceptance.
--
-- ARGV  execution_id  id     of the open prompt
-- ARGV  generation    int    of the open prompt
-- ARGV  ordinal       int    1 for a prompt's first output, one more for each, 0 for none
-- ARGV  body          bytes  the text
-- @include lib/acceptance

-- A number that was heard before is a repeat, and says nothing new.
local function say()
  if tonumber(ordinal) <= number('open_output') then
    return
  end
  set('open_output', ordinal)
  accept_prompt()
  if body ~= '' then
    log_entry('output', 'turn', text('open_turn'), 'generation', generation, 'execution_id', execution_id, 'text', body)
  end
end
