-- The one way in which a numbered prompt ends, whatever ended it: consumed or put back, a tombstone against its
-- late completion, `turn.ended`, and exactly one `agent.ready` that names it for ever.
--
-- KEYS  events         stream  what replicas must act on
-- ARGV  settlement_ms  ms      until a ready that nobody settled is looked for
-- @include lib/batch
-- @include lib/back
-- @include lib/settled
-- @include lib/activity
-- @include lib/operation

local KEPT = { 'turn', 'generation', 'claim', 'execution', 'attempt', 'output', 'step_entry' }
local DROPPED = { 'accepted', 'step', 'step_first', 'step_size', 'batch', 'answered', 'answer' }

local function publish_ready(policy)
  return redis.call('XADD', events, '*', 'type', 'agent.ready', 'session_id', session_id,
    'execution_id', text('last_execution'), 'generation', text('last_generation'), 'claim_id', text('last_claim'),
    'turn', text('last_turn'), 'reason', text('last_reason'), 'cancel_kind', text('last_cancel_kind'),
    'worker_id', text('last_worker'), 'attempt', text('last_attempt'), 'settlement', policy, 'at_ms', text('last_ms'),
    'schema', '1')
end

local function end_prompt(reason, back, error_text)
  local entry = { 'turn.ended', 'turn', text('open_turn'), 'generation', text('open_generation'),
    'execution_id', text('open_execution'), 'reason', reason, 'attempt', text('open_attempt') }
  if error_text ~= '' then
    entry[#entry + 1], entry[#entry + 2] = 'error', error_text
  end
  local attempts = 0
  if back then
    attempts = put_back()
  else
    consume()
  end
  log_entry(unpack(entry))
  local outcome = (reason == 'cancelled' or reason == 'escalated') and reason or 'completed'
  for _, field in ipairs(KEPT) do
    set('last_' .. field, text('open_' .. field))
    set('open_' .. field, '')
  end
  for _, field in ipairs(DROPPED) do
    set('open_' .. field, '')
  end
  set('last_reason', reason)
  set('last_finished', '')
  set('last_returned', back and '1' or '')
  set('last_cancel_kind', text('cancel_kind'))
  set('last_worker', text('worker_id'))
  set('last_ms', now)
  set('last_entry', publish_ready(text('settlement')))
  set('unsettled', '1')
  if text('execution_status') == 'running' then
    set('execution_status', 'ready')
  end
  no_deadline('acceptance')
  deadline('settlement', tonumber(settlement_ms))
  count('ready')
  settle_operation(outcome)
  if text('settlement') == 'none' then
    settled('none')
  end
  return attempts
end
