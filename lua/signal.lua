-- Let the end of a turn advance the present step, where the step asks for such a signal. It moves nothing by itself.
--
-- Replies
--   OK
--   NO_SESSION
--   CLOSED
--   GONE        the session has no workflow
-- @include lib/done

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
elseif text('workflow') == '' then
  return { 'GONE' }
end

set('signalled', text('step_entry'))
return done('OK')
