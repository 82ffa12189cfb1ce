-- The last moment of a session: nothing is open any more.
--
-- ARGV  retention_closed_ms  ms  how long a closed session stays readable
-- @include lib/activity
-- @include lib/inbox

local function close_now()
  discard_all('closed')
  set('lifecycle', 'closed')
  deadline('retention', tonumber(retention_closed_ms))
  log_entry('session.closed')
  count('closed')
end
