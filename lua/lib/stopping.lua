-- Whether a cancel operation is recorded for what is open.
--
-- @include lib/record

local function is_stopping()
  return text('cancel_id') ~= ''
end
