-- Open the next turn: a new generation for everything at the step boundary and at most one message of next-turn.
--
-- ARGV  claim_id       id    random, made before the claim is sent, so that its repeat is recognised
-- ARGV  floor          int   the highest generation that the worker has seen; the new one passes it
-- ARGV  acceptance_ms  ms    until the agent must have taken the prompt
-- Replies
--   OK          generation turn attempt abort, then id list kind attempt body for each message
--   NO_SESSION
--   FINISHED                this claim was opened and has ended
--   SUPERSEDED              the activity or the execution is no longer the session's, or a later claim was answered
--   GUARDED     ms_left     until the guard's lease ends
--   ENTERING    step        a workflow step is being entered
--   OWED        generation  an earlier prompt has not ended
--   UNSETTLED   turn        the turn before waits for a replica
--   EMPTY       turn        its messages are gone: a turn was written that opened and ended at once
-- @include lib/driver
-- @include lib/holder
-- @include lib/batch
-- @include lib/settled
-- @include lib/exit
-- @include lib/question

local function opened()
  return append_messages({ 'OK', text('open_generation'), text('open_turn'), text('open_attempt'), text('cancel_cause') },
    0, number('open_batch'))
end

-- A driver has its answer before it claims again: a packet that was under way all the time names an older floor.
local function is_overtaken()
  return text('last_execution') == execution_id and tonumber(floor) < number('last_generation')
end

if text('schema') == '' then
  return { 'NO_SESSION' }
elseif text('open_claim') == claim_id then
  return opened()
elseif text('last_claim') == claim_id or text('empty_claim') == claim_id then
  return { 'FINISHED' }
elseif not may_drive() or is_overtaken() then
  return { 'SUPERSEDED' }
elseif is_held_up() then
  return { 'GUARDED', int(redis.call('PTTL', guard)) }
elseif text('entering') ~= '' then
  return { 'ENTERING', text('step') }
elseif text('open_claim') ~= '' then
  return { 'OWED', text('open_generation') }
elseif text('unsettled') ~= '' and not holder then
  return { 'UNSETTLED', text('last_turn') }
end

if text('unsettled') ~= '' then
  settled('superseded')
end
if is_direct_overdue() then
  drop_direct('expired')
end
local turn = int(number('turn') + 1)
set('turn', turn)
set('unnamed', '')
if pending() == 0 then
  set('empty_claim', claim_id)
  log_entry('turn.started', 'turn', turn, 'execution_id', execution_id)
  log_entry('turn.ended', 'turn', turn, 'execution_id', execution_id, 'reason', 'completed', 'empty', '1')
  count('empty_turns')
  exit_decision(false, false)
  return done('EMPTY', turn)
end

put_his_direct_first()
local generation = math.max(number('generation'), tonumber(floor)) + 1
local batch, attempt = next_batch()
for field, value in pairs({ generation = generation, turn = turn, claim = claim_id, execution = execution_id,
  attempt = attempt + 1, batch = #batch, step_entry = text('step_entry') }) do
  set('open_' .. field, value)
end
set('generation', generation)
set('activity_execution', execution_id)
set('park_mark', '')
no_deadline('placement')
deadline('acceptance', tonumber(acceptance_ms))
log_entry('turn.started', 'turn', turn, 'generation', int(generation), 'execution_id', execution_id,
  'claim_id', claim_id, 'attempt', int(attempt + 1))
take(batch, turn)
expire_question('turn')
count('turns')
done('OK')
return opened()
