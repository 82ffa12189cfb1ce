-- Whether the session's guard holds the next turn up. The holder's own prompt passes, also while the turn before is
-- unsettled: its claim would wait for the settlement, that for the guard, and the holder for the acceptance.
--
-- KEYS  guard  hash  owner and number, under a TTL
-- @include lib/direct

local holder = redis.call('HGET', guard, 'number')

-- Not one that was steered to the step boundary since.
local function has_his_direct()
  local info = info_of(text('direct'))
  return has_direct() and not is_direct_overdue() and info.guard == holder and info.list == 'next-turn'
end

local function is_held_up()
  if not holder or has_his_direct() then
    return false
  end
  local head = redis.call('LINDEX', next_turn, 0)
  return not head or head == text('direct') or info_of(head).guard ~= holder
end

-- A step's prompt, an answer or a replacement may have been put before it since: they wait for the guard, which waits
-- for it.
local function put_his_direct_first()
  local head = redis.call('LINDEX', next_turn, 0)
  if holder and has_his_direct() and head ~= text('direct') then
    redis.call('LREM', next_turn, 1, text('direct'))
    redis.call('LPUSH', next_turn, text('direct'))
    log_entry('inbox.moved', 'message_id', text('direct'), 'list', 'next-turn', 'before', head)
  end
end
