-- Whether the deadline that a sweeper read is still that deadline, and over.
--
-- ARGV  score  ms  the score that the sweeper read
-- @include lib/deadline

local function is_due(kind)
  local at = deadline_of(kind)
  return at == tonumber(score) and at <= now
end
