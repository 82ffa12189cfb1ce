-- Whether the session's guard holds the next turn up. The holder's own prompt passes, also while the turn before is
-- unsettled: its claim would wait for the settlement, that for the guard, and the holder for the acceptance.
--
-- KEYS  guard  hash  owner and number, under a TTL
-- @include lib/direct

local holder = redis.call('HGET', guard, 'number')

local function is_held_up()
  local head = holder and redis.call('LINDEX', next_turn, 0)
  local is_his = head and info_of(head).guard == holder
  return holder and not (is_his and not (head == text('direct') and is_direct_overdue()))
end
