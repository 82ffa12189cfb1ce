-- The one way in which a numbered prompt ends, whatever ended it: consumed or put back, a tombstone against its
-- late completion, `turn.ended`, and exactly one `agent.ready` that names it for ever.
--
-- KEYS  events         stream  what replicas must act on
-- ARGV  settlement_ms  ms      until a ready that nobody settled is looked for
-- @include lib/batch
-- @include lib/settled
-- @include lib/activity

local IDENTITY = { 'turn', 'generation', 'claim', 'execution', 'attempt' }
local OPEN_ONLY = { 'accepted', 'output', 'step', 'step_first', 'step_size', 'batch' }

local function publish_ready()
  return redis.call('XADD', events, '*', 'type', 'agent.ready', 'session_id', session_id,
    'execution_id', text('unsettled_execution'), 'generation', text('unsettled_generation'),
    'claim_id', text('unsettled_claim'), 'turn', text('unsettled_turn'), 'reason', text('unsettled_reason'),
    'cancel_kind', text('unsettled_cancel_kind'), 'worker_id', text('unsettled_worker'),
    'attempt', text('unsettled_attempt'), 'at_ms', text('unsettled_ms'), 'schema', '1')
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
  for _, field in ipairs(IDENTITY) do
    set('last_' .. field, text('open_' .. field))
    set('unsettled_' .. field, text('open_' .. field))
    set('open_' .. field, '')
  end
  set('last_output', text('open_output'))
  for _, field in ipairs(OPEN_ONLY) do
    set('open_' .. field, '')
  end
  set('last_reason', reason)
  set('unsettled_reason', reason)
  set('unsettled_worker', text('worker_id'))
  set('unsettled_ms', now)
  set('unsettled_entry', publish_ready())
  if text('execution_status') == 'running' then
    set('execution_status', 'ready')
  end
  no_deadline('acceptance')
  deadline('settlement', tonumber(settlement_ms))
  count('ready')
  if text('settlement') == 'none' then
    settled('none')
  end
  return attempts
end
