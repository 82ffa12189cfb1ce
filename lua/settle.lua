-- FLAGS allow-oom
-- A replica settles the turn that an `agent.ready` names: all its effects, and its acknowledgement, at once.
--
-- KEYS  events    stream  where the entry is pending
-- ARGV  group     text    the replicas' group
-- ARGV  entry_id  id      the entry to acknowledge
-- Replies
--   OK          outcome  the same again for the entry that settled the turn
--   STALE       why      not the unsettled turn: acknowledged, counted and logged
--   NO_SESSION           the same for a session that is not there
--   GUARDED     ms_left  somebody holds the guard: nothing was written, try again
--   GUARD_LOST           the guard was lost: nothing was written
-- @include lib/ready
-- @include lib/settled
-- @include lib/done

local reason = text('last_reason')
local outcome = (reason == 'completed' or reason == 'max_tokens') and 'stayed' or 'none'
if text('settled_entry') == entry_id and not differs_from('last_') then
  return { 'OK', outcome }
end
local refusal = check_ready()
if refusal then
  if refusal[1] == 'STALE' or refusal[1] == 'NO_SESSION' then
    redis.call('XACK', events, group, entry_id)
    note_stale(refusal[2])
  end
  return refusal
end

set('settled_entry', entry_id)
settled(outcome)
give_guard_back()
hint_waiting()
redis.call('XACK', events, group, entry_id)
return done('OK', outcome)
