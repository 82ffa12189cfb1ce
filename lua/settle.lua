-- FLAGS allow-oom
-- A replica settles the turn that an `agent.ready` names: all its effects, and its acknowledgement, at once.
--
-- Replies
--   OK          outcome  the same again for the entry that settled the turn
--   STALE       why      not the unsettled turn: acknowledged, counted and logged
--   NO_SESSION           the same for a session that is not there
--   GUARDED     ms_left  somebody holds the guard: nothing was written, try again
--   GUARD_LOST           the guard was lost: nothing was written
-- @include lib/ready_entry
-- @include lib/settled
-- @include lib/done

local reason = text('last_reason')
local outcome = (reason == 'completed' or reason == 'max_tokens') and 'stayed' or 'none'
if text('settled_entry') == entry_id and not differs_from('last_') then
  return { 'OK', outcome }
end
local refusal = ready_refused()
if refusal then
  return refusal
end

set('settled_entry', entry_id)
settled(outcome)
give_guard_back()
hint_waiting()
redis.call('XACK', events, group, entry_id)
return done('OK', outcome)
