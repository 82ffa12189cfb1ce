-- The exit decision: what follows the end of an activity. The last look at the inbox and giving up the activity
-- are one script, so a send falls before it and is seen, or after it and starts a driver.
--
-- ARGV  next_token  id  the activity that a restart begins under, made by the caller
-- @include lib/activity
-- @include lib/inbox
-- @include lib/close_now

-- natural: an agent completed the turn, or met its token limit. parks: an end that parks what is queued.
-- Answers GO_ON, GONE or RESTARTED, and the token for which the caller must offer a placement, or ''.
local function exit_decision(natural, parks)
  if text('lifecycle') == 'closing' then
    go_idle()
    close_now()
    return 'GONE', ''
  end
  if natural and pending() > 0 then
    return 'GO_ON', ''
  end
  if parks then
    raise_mark()
  end
  go_idle()
  if natural or not has_awake() then
    return 'GONE', ''
  end
  return 'RESTARTED', start_activity(next_token) and next_token or ''
end

-- The answer to a repeat, while the activity that the first call began is still there.
local function restarted_before()
  if text('activity') ~= next_token then
    return nil
  end
  return { 'RESTARTED', text('activity_execution') == '' and not is_live() and next_token or '' }
end

-- The same for a script that answers with the token alone: '' when the first call began nothing, or that is placed.
local function placed_before()
  local again = restarted_before()
  return again and again[2] or ''
end
