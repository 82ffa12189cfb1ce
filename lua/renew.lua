-- FLAGS allow-oom
-- A worker's heartbeat for the sessions of one partition: leases, and what the worker has to do about each.
--
-- KEYS  deadlines     zset  the partition's deadlines
-- KEYS  held_keys...  any   record and suspects of each session
-- ARGV  worker_id     id    who renews
-- ARGV  renewal       id    made for this renewal, so that its repeat after a lost reply is no second one
-- ARGV  lease_ms      ms    the right that a renewal gives
-- ARGV  suspect_ms    ms    how long a suspect is remembered after it was last named
-- ARGV  held...       text  session id, execution id, token and claim id of each session; the last two may be empty
-- Replies
--   OK  now, then a word and a token for each session:
--       held        nothing to do
--       run         token: an activity is the execution's and nothing is open; a driver must be at work, and look again
--       reset       id: the provider's session is to be replaced, then `reset_end` called
--       abort       the cause: the open prompt is to be stopped
--       release     the session is gone or closed: give the execution up
--       superseded  the execution is no longer the session's: end it, then report its release
--       expired     two renewals did not name what the record shows: its lease was ended, and is now due
-- @include lib/clock

local function extend(kind, id, ms)
  redis.call('ZADD', deadlines, int(now + ms), kind .. ':' .. id)
end

-- Whether the record shows something driven that the worker does not name, for the second time in a row: dead work
-- under a live worker. The first time it is noted only, since a claim may have overtaken the renewal on its way.
local function is_dead_work(session, drives, named, noted)
  if drives and not named then
    local by, missed = (noted or ''):match('^(%S+) (%S+)$')
    if missed ~= drives then
      redis.call('HSET', session, 'unnamed', renewal .. ' ' .. drives)
      return false
    end
    return by ~= renewal
  end
  if noted then
    redis.call('HDEL', session, 'unnamed')
  end
  return false
end

local function renew(session, suspects, id, execution_id, token, claim_id)
  local fields = redis.call('HMGET', session, 'execution_id', 'worker_id', 'lifecycle', 'activity', 'activity_execution',
    'open_claim', 'unnamed', 'execution_status', 'cancel_cause', 'phase',
    'reset_id')
  if fields[1] ~= execution_id or fields[2] ~= worker_id then
    if redis.call('SISMEMBER', suspects, execution_id) == 1 then
      extend('suspect', id, tonumber(suspect_ms))
    end
    return fields[3] and 'superseded' or 'release', ''
  end
  local activity, mine = fields[4] or '', fields[5] == execution_id
  local open_claim = fields[6]
  local drives = open_claim or (mine and activity)
  local named = open_claim == claim_id or (not open_claim and token == activity)
  if is_dead_work(session, drives, named, fields[7]) then
    redis.call('ZADD', deadlines, int(now), 'lease:' .. id)
    return 'expired', int(now)
  end
  extend('lease', id, tonumber(lease_ms))
  if fields[3] == 'closed' then
    return 'release', ''
  elseif open_claim and fields[9] then
    return 'abort', fields[9]
  elseif fields[10] == 'maintenance' and activity == fields[11] and fields[8] ~= 'starting' then
    return 'reset', activity
  elseif fields[10] == 'running' and not open_claim and (mine or not fields[5]) and fields[8] ~= 'starting' then
    return 'run', activity
  end
  return 'held', ''
end

local reply = { 'OK', int(now) }
for i = 0, (#ARGV - held + 1) / 4 - 1 do
  local key, at = held_keys + i * 2, held + i * 4
  local word, detail = renew(KEYS[key], KEYS[key + 1], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  reply[#reply + 1] = word
  reply[#reply + 1] = detail
end
return reply
