-- Messages: two pending lists, one in flight, bodies and what is known of each.
--
-- KEYS  next_turn     list  pending, one a turn
-- KEYS  next_step     list  pending, all at a boundary
-- KEYS  awake         zset  pending waking messages by sequence
-- KEYS  messages      hash  id to body, pending and in flight only
-- KEYS  message_info  hash  id to "sequence wake list kind attempt guard digest sender"
-- @include lib/record
-- @include lib/log

local function info_of(id)
  local line = redis.call('HGET', message_info, id) or ''
  local sequence, wake, list, kind, attempt, of_guard, rest = line:match('^(%d+) (%d) (%S+) (%S+) (%d+) (%d+) (.*)$')
  return { sequence = sequence, wake = wake, list = list, kind = kind, attempt = tonumber(attempt or '0'),
    guard = of_guard, rest = rest }
end

local function write_info(id, info)
  redis.call('HSET', message_info, id, table.concat(
    { info.sequence, info.wake, info.list, info.kind, int(info.attempt), info.guard, info.rest }, ' '))
end

local function key_of(list)
  return list == 'next-step' and next_step or next_turn
end

-- A message that is new, into the list that its info names.
local function add(id, content, info, first)
  set('inbox_bytes', number('inbox_bytes') + #content)
  redis.call(first and 'LPUSH' or 'RPUSH', key_of(info.list), id)
  redis.call('HSET', messages, id, content)
  write_info(id, info)
  if info.wake == '1' then
    redis.call('ZADD', awake, info.sequence, id)
  end
  log_entry('inbox.inserted', 'message_id', id, 'list', info.list, 'sequence', info.sequence, 'wake', info.wake,
    'kind', info.kind)
end

local function pending()
  return redis.call('LLEN', next_turn) + redis.call('LLEN', next_step)
end

-- One by one: a long turn may have taken more ids than a Lua call takes arguments.
local function forget(ids)
  for _, id in ipairs(ids) do
    redis.call('HDEL', messages, id)
    redis.call('HDEL', message_info, id)
  end
end

local function is_pending(id)
  local list = info_of(id).list
  return list and redis.call('LPOS', key_of(list), id)
end

-- A pending message, visibly.
local function discard(id, why)
  local list = info_of(id).list
  redis.call('LREM', key_of(list), 1, id)
  redis.call('ZREM', awake, id)
  set('inbox_bytes', math.max(0, number('inbox_bytes') - redis.call('HSTRLEN', messages, id)))
  forget({ id })
  log_entry('inbox.discarded', 'message_id', id, 'list', list, 'why', why)
end

-- One discard entry a message, next-step first; nothing pending is left.
local function discard_all(why)
  for _, list in ipairs({ 'next-step', 'next-turn' }) do
    for _, id in ipairs(redis.call('LRANGE', key_of(list), 0, -1)) do
      log_entry('inbox.discarded', 'message_id', id, 'list', list, 'why', why)
      forget({ id })
    end
  end
  redis.call('DEL', next_turn, next_step, awake)
  set('inbox_bytes', '')
end
