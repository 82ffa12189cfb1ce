-- Discard everything pending; what runs goes on.
--
-- Replies
--   OK
--   CONFLICT    this operation id was used for something else
--   NO_SESSION
--   CLOSED
-- @include lib/first_answer
-- @include lib/inbox
-- @include lib/done

local first, conflicts = first_answer()
if conflicts then
  return { 'CONFLICT' }
elseif first then
  return { 'OK' }
elseif text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('lifecycle') ~= 'open' then
  return { 'CLOSED' }
end

discard_all('cleared')
keep_answer('done')
return done('OK')
