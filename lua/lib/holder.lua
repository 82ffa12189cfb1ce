-- Whether the session's guard holds the next turn up. The holder's own prompt passes, also while the turn before is
-- unsettled: its claim would wait for the settlement, that for the guard, and the holder for the acceptance.
--
-- KEYS  guard  hash  owner and number, under a TTL
-- @include lib/inbox

local holder = redis.call('HGET', guard, 'number')

local function is_held_up()
  local head = holder and redis.call('LINDEX', next_turn, 0)
  return holder and not (head and info_of(head).guard == holder)
end
