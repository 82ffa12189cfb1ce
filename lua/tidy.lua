-- FLAGS allow-oom
-- Keep a partition's event stream short. Consumers that are long gone leave the group, unless something is pending
-- for them: that has to be taken over first. Entries beyond the newest go, oldest first and in whole nodes, up to
-- the first that any group has not acknowledged.
--
-- KEYS  events   stream  what replicas must act on
-- ARGV  group    text    the replicas' group
-- ARGV  idle_ms  ms      how long a consumer has to be silent to be gone
-- ARGV  kept     int     how many of the newest entries stay in any case
-- Replies
--   OK  consumers and entries removed

local function rows(...)
  local found = {}
  local reply = redis.pcall('XINFO', ...)
  for _, flat in ipairs(reply.err and {} or reply) do
    local row = {}
    for i = 1, #flat, 2 do
      row[flat[i]] = flat[i + 1]
    end
    found[#found + 1] = row
  end
  return found
end

local function parts(id)
  local ms, order = id:match('^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(order)
end

local function is_before(id, other)
  local ms, order = parts(id)
  local other_ms, other_order = parts(other)
  return ms < other_ms or (ms == other_ms and order < other_order)
end

local function next_id(id)
  local ms, order = id:match('^(%d+)-(%d+)$')
  return ms .. '-' .. string.format('%.0f', tonumber(order) + 1)
end

local gone, bound = {}, nil
for _, row in ipairs(rows('GROUPS', events)) do
  local first = redis.call('XPENDING', events, row['name'])[2] or next_id(row['last-delivered-id'])
  if not bound or is_before(first, bound) then
    bound = first
  end
end
for _, row in ipairs(rows('CONSUMERS', events, group)) do
  if row['pending'] == 0 and row['idle'] >= tonumber(idle_ms) then
    gone[#gone + 1] = row['name']
  end
end
local excess = redis.call('XLEN', events) - tonumber(kept)

for _, name in ipairs(gone) do
  redis.call('XGROUP', 'DELCONSUMER', events, group, name)
end
local removed = 0
if bound and excess > 0 then
  removed = redis.call('XTRIM', events, 'MINID', '~', bound, 'LIMIT', string.format('%.0f', excess))
end
return { 'OK', string.format('%.0f', #gone), string.format('%.0f', removed) }
