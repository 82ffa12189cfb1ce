-- That the agent has taken its prompt: its first output says so, or its first question.
--
-- @include lib/record
-- @include lib/deadline
-- @include lib/log

local function accept_prompt()
  if text('open_accepted') == '' then
    set('open_accepted', '1')
    set('execution_status', 'running')
    no_deadline('acceptance')
    log_entry('agent.running', 'turn', text('open_turn'), 'generation', text('open_generation'),
      'execution_id', text('open_execution'))
  end
end
