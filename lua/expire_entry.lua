-- FLAGS allow-oom
-- A step's entry has not ended in time: it is announced again, and the third time it has failed.
--
-- Replies
--   OK       place  the token for which a placement has to be offered, or empty
--   NOT_DUE
--   GONE            no entry is under way
-- @include lib/due
-- @include lib/entry_end
-- @include lib/done

if not is_due('entry') then
  return { 'NOT_DUE' }
elseif text('entering') == '' then
  no_deadline('entry')
  return { 'GONE' }
end

set('entry_tries', number('entry_tries') + 1)
if number('entry_tries') < 3 then
  deadline('entry', tonumber(entry_ms))
  announce('step.entering', text('entering'))
  return done('OK', '')
end
give_entry_up('not entered in time')
return done('OK', go_on_after_entry())
