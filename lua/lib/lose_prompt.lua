-- The end of a prompt whose agent can't be asked any more: its worker is gone, is leaving, or never got it accepted.
-- Also how a dispatch that failed gives its messages back.
--
-- @include lib/end_prompt

-- Not accepted: nobody has acted on the messages, so they go back in line; the third time they are parked.
-- Accepted: the session's policy decides, since the agent may have acted.
local function lose_prompt(reason, error_text)
  if is_stopping() then
    -- Put back, it would land before a replacement, or undo the stop.
    end_prompt('escalated', false, error_text)
    return false
  end
  local retries = number('retries')
  if text('open_accepted') ~= '' then
    end_prompt(reason, text('lost_turns') == 'retry' and number('open_attempt') < retries, error_text)
    return false
  end
  if end_prompt(reason, true, error_text) < 3 then
    return false
  end
  log_entry('error', 'where', 'dispatch', 'message', 'not accepted by an agent three times; parked until the next wake')
  return true
end
