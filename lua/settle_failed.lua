-- FLAGS allow-oom
-- A handler failed. The failure is counted; after enough of them the entry is given up and the turn settled.
--
-- KEYS  events        stream  where the entry is pending
-- KEYS  dead          stream  entries given up
-- ARGV  group         text    the replicas' group
-- ARGV  entry_id      id      the entry
-- ARGV  guard_number  int     the caller's guard
-- ARGV  error_text    text    what failed
-- ARGV  tries         int     failures until the entry is given up
-- ARGV  next_entry    id      for the entry that a pending move may begin then
-- Replies
--   FAILED      failures  counted: try again later
--   DEAD        failures  given up; the turn is settled as failed
--   STALE       why
--   NO_SESSION
--   GUARDED     ms_left
--   GUARD_LOST
--   RESETTING            a reset is on: try again
-- @include lib/ready
-- @include lib/settled
-- @include lib/evaluation
-- @include lib/entry
-- @include lib/done

-- A try has the guard to itself, so a second failure under the same number is the repeat of the first.
local fence, word, counted = text('last_failure'):match('^(%d+) (%u+) (%d+)$')
if fence == guard_number and not differs_from('last_') then
  return { word, counted }
end
local refusal = check_ready()
if refusal then
  return refusal
end

local failures = number('handler_failures') + 1
local given_up = failures >= tonumber(tries)
set('handler_failures', failures)
set('last_failure', guard_number .. (given_up and ' DEAD ' or ' FAILED ') .. int(failures))
log_entry('error', 'where', 'handler', 'message', error_text, 'turn', text('last_turn'))
if not given_up then
  return done('FAILED', int(failures))
end
redis.call('XADD', dead, 'MAXLEN', '~', '10000', '*', 'type', 'agent.ready', 'session_id', session_id,
  'execution_id', execution_id, 'generation', generation, 'claim_id', claim_id, 'turn', text('last_turn'),
  'reason', text('last_reason'), 'entry_id', entry_id, 'failures', int(failures), 'error', error_text)
count('dead')
if text('on_handler_failure') == 'park' then
  park_waiting()
end
-- A move that came while the handlers ran: no later settlement may ever come to apply it.
local is_moved = evaluation() == 'moved'
settled('failed')
if is_moved then
  apply_move(next_entry)
end
give_guard_back()
hint_waiting()
redis.call('XACK', events, group, entry_id)
return done('DEAD', int(failures))
