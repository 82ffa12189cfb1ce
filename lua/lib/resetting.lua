-- Whether the marker of a context reset is on: nothing starts then.
--
-- @include lib/record

local function is_resetting()
  return text('reset_id') ~= ''
end
