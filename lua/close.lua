-- FLAGS allow-oom
-- Close a session: its inbox is discarded, nothing starts any more, and it is closed when nothing is open.
--
-- ARGV  operation_id  id  made by the caller; the ticket of the cancel that a close is, while a prompt is open
-- Replies
--   OK          lifecycle  closing while a prompt or maintenance job is open, else closed; a repeat: what it is by then
--   NO_SESSION
-- @include lib/overdue
-- @include lib/abandon

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'OK', text('lifecycle') }
end

apply_overdue()
discard_all('closed')
raise_mark()
set('lifecycle', 'closing')
abandon_flow()
if is_resetting() then
  local called = is_called()
  end_reset('failed', 'the session is closed')
  if called then
    void_execution('its reset was cut off')
    go_idle()
  end
end
if text('open_claim') ~= '' or text('phase') == 'maintenance' then
  stop(operation_id, 'close')
else
  exit_decision(false, false)
  hint_worker()
end
return done('OK', text('lifecycle'))
