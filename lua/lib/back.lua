-- How what a turn took goes back in line.
--
-- KEYS  in_flight  list  what the open turn took, in order
-- @include lib/inbox

-- To the head of its list, even above the inbox limit: refusing it would lose it.
local function put_first_again(id, info, ...)
  redis.call('LPUSH', key_of(info.list), id)
  if info.wake == '1' then
    redis.call('ZADD', awake, info.sequence, id)
  end
  set('inbox_bytes', number('inbox_bytes') + redis.call('HSTRLEN', messages, id))
  log_entry('inbox.returned', 'message_id', id, 'list', info.list, 'attempt', int(info.attempt), ...)
end

-- The whole batch, order kept. Answers the highest attempt that a message now has.
local function put_back()
  local ids, highest = redis.call('LRANGE', in_flight, 0, -1), 0
  for i = #ids, 1, -1 do
    local info = info_of(ids[i])
    info.attempt = info.attempt + 1
    highest = math.max(highest, info.attempt)
    write_info(ids[i], info)
    put_first_again(ids[i], info)
  end
  redis.call('DEL', in_flight)
  return highest
end
