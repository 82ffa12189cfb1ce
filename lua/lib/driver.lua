-- Whether the caller drives the session's activity, on an execution that is up.
--
-- ARGV  token         id  the activity that the driver runs
-- ARGV  execution_id  id  its execution
-- @include lib/record

local function may_drive()
  if token == '' or text('phase') ~= 'running' or text('activity') ~= token or text('execution_id') ~= execution_id then
    return false
  end
  local accepted, status = text('activity_execution'), text('execution_status')
  return (accepted == execution_id or accepted == '') and (status == 'ready' or status == 'running')
end
