-- A client's call that comes again gets the first answer, and an id that comes with other content is refused.
--
-- KEYS  receipt      string  the first answer; its name ends in the id that the caller made for the call
-- ARGV  digest       hex     of the content and the options
-- ARGV  receipts_ms  ms      how long a repeat is recognised

-- The words of the first answer, or nil; the second result is true for a conflict.
local function first_answer()
  local words = {}
  for word in (redis.call('GET', receipt) or ''):gmatch('%S+') do
    words[#words + 1] = word
  end
  if #words == 0 then
    return nil, false
  end
  return { unpack(words, 2) }, words[1] ~= digest
end

local function keep_answer(...)
  redis.call('SET', receipt, table.concat({ digest, ... }, ' '), 'PX', receipts_ms)
end
