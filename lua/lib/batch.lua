-- What a turn takes from the inbox, and how that is used up.
--
-- KEYS  in_flight  list  what the open turn took, in order
-- @include lib/inbox

-- Everything at the step boundary and at most one of next-turn, and how often the most tried of them was tried.
local function next_batch()
  local ids, attempt = redis.call('LRANGE', next_step, 0, -1), 0
  ids[#ids + 1] = redis.call('LINDEX', next_turn, 0) or nil
  for _, id in ipairs(ids) do
    attempt = math.max(attempt, info_of(id).attempt)
  end
  return ids, attempt
end

-- Moves ids from a pending list to the flight; the caller has checked that they head that list.
local function take(ids, turn)
  local bytes = 0
  for _, id in ipairs(ids) do
    local info = info_of(id)
    redis.call('LPOP', key_of(info.list))
    redis.call('RPUSH', in_flight, id)
    set('direct_ms', id == text('direct') and '' or text('direct_ms'))
    redis.call('ZREM', awake, id)
    bytes = bytes + redis.call('HSTRLEN', messages, id)
    log_entry('inbox.claimed', 'message_id', id, 'list', info.list, 'turn', turn,
      'generation', text('open_generation'))
  end
  if #ids > 0 then
    set('inbox_bytes', math.max(0, number('inbox_bytes') - bytes))
  end
end

-- id, list, kind, attempt, body for each, appended to the reply.
local function append_messages(reply, first, count_of)
  if count_of < 1 then
    return reply
  end
  for _, id in ipairs(redis.call('LRANGE', in_flight, first, first + count_of - 1)) do
    local info = info_of(id)
    for _, value in ipairs({ id, info.list, info.kind, int(info.attempt), redis.call('HGET', messages, id) or '' }) do
      reply[#reply + 1] = value
    end
  end
  return reply
end

local function consume()
  local ids = redis.call('LRANGE', in_flight, 0, -1)
  if #ids > 0 then
    forget(ids)
    redis.call('DEL', in_flight)
  end
end
