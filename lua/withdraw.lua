-- FLAGS allow-oom
-- A direct prompt has waited long enough for its predecessor: it is taken back, and the predecessor is untouched.
--
-- ARGV  message_id  id  the prompt
-- Replies
--   OK       execution_id generation  taken back, by this call or a repeat before; what is owed, empty and 0 for nothing
--   NOT_DUE  ms_left                  its wait is not over
--   GONE                              it was claimed, or discarded
-- @include lib/direct
-- @include lib/done

if text('direct') ~= message_id or not has_direct() then
  return text('withdrawn') == message_id and { 'OK', text('open_execution'), int(number('open_generation')) } or { 'GONE' }
elseif number('direct_ms') > now then
  return { 'NOT_DUE', int(number('direct_ms') - now) }
end

drop_direct('expired')
set('withdrawn', message_id)
return done('OK', text('open_execution'), int(number('open_generation')))
