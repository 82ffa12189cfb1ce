-- FLAGS allow-oom
-- Close a session: its inbox is discarded, nothing starts any more, and it is closed when nothing is open.
--
-- Replies
--   OK          lifecycle  closing while a prompt is open, else closed; the same again for a repeat
--   NO_SESSION
-- @include lib/activity
-- @include lib/inbox
-- @include lib/close_now

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'OK', text('lifecycle') }
end

discard_all('closed')
raise_mark()
set('lifecycle', 'closing')
if text('open_claim') == '' then
  if text('phase') ~= 'idle' then
    go_idle()
  end
  close_now()
end
return done('OK', text('lifecycle'))
