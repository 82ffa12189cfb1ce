-- Whether an `agent.ready` still names the turn that waits for its settlement.
--
-- KEYS  guard         hash  owner and number, under a TTL
-- ARGV  execution_id  id    of the ready
-- ARGV  generation    int   of the ready
-- ARGV  guard_number  int   the caller's guard, under which handlers run; 0 when it holds none
-- @include lib/ownership
-- @include lib/log
-- @include lib/resetting

local function check_ready()
  if text('schema') == '' then
    return { 'NO_SESSION', 'session' }
  end
  local why = differs_from('last_') or (text('unsettled') == '' and 'settled')
  if why then
    return { 'STALE', why }
  end
  if is_resetting() then
    return { 'RESETTING' }
  end
  local holder = redis.call('HGET', guard, 'number')
  if guard_number ~= '0' and holder ~= guard_number then
    return { 'GUARD_LOST' }
  elseif guard_number == '0' and holder then
    return { 'GUARDED', int(redis.call('PTTL', guard)) }
  end
  return nil
end

-- The settlement is the last thing that its guard was for: given back in the same script, so that no claim in between
-- is held up by it.
local function give_guard_back()
  if guard_number ~= '0' then
    redis.call('DEL', guard)
  end
end

local function note_stale(why)
  count('stale')
  count('stale.' .. why)
  if text('schema') ~= '' then
    log_entry('ready.stale', 'why', why, 'generation', generation, 'execution_id', execution_id)
  end
end
