-- Pending messages that a replacement moves to the head of the line.
--
-- ARGV  chosen...  id  those that go first in line instead of a new text, in order
-- @include lib/inbox

local function is_chosen(id)
  for at = chosen, #ARGV do
    if ARGV[at] == id then
      return true
    end
  end
  return false
end

local function last_chosen()
  return ARGV[#ARGV]
end

local function missing_choice()
  for at = chosen, #ARGV do
    if not is_pending(ARGV[at]) then
      return ARGV[at]
    end
  end
  return nil
end

-- In the order of the call, awake whatever they were before. Answers the last one's new sequence.
local function put_chosen()
  for at = #ARGV, chosen, -1 do
    local id, info = ARGV[at], info_of(ARGV[at])
    redis.call('LREM', key_of(info.list), 1, id)
    if id == text('direct') then
      -- It belongs to whoever chose it: its first caller takes it back no more.
      set('direct', '')
      set('direct_ms', '')
    end
    info.list, info.wake, info.sequence = 'next-turn', '1', int(number('sequence') + 1)
    set('sequence', info.sequence)
    write_info(id, info)
    local before = redis.call('LINDEX', next_turn, 0) or ''
    redis.call('LPUSH', next_turn, id)
    redis.call('ZADD', awake, info.sequence, id)
    log_entry('inbox.moved', 'message_id', id, 'list', 'next-turn', 'before', before, 'sequence', info.sequence)
  end
  return text('sequence')
end
