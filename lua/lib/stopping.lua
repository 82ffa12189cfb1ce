-- Whether a cancel operation is recorded for what is open, and how strong its kind is.
--
-- @include lib/record

local RANK = { silent = 1, parent = 2, user = 3, replace = 4, system = 4, close = 5 }

local function is_stopping()
  return text('cancel_id') ~= ''
end

-- A person's stop neither lowers nor raises an exclusive one.
local function outranks(kind, other)
  return RANK[kind] > (RANK[other] or 0)
end
