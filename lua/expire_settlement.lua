-- FLAGS allow-oom
-- Nobody settled a turn in time. Its ready is written again, from the record, if the stream has lost it: an entry
-- that is pending, or not delivered yet, is somebody's already.
--
-- ARGV  group  text  the replicas' group
-- Replies
--   OK       entry_id  the ready that stands for the turn now
--   NOT_DUE
--   GONE               nothing is unsettled
-- @include lib/due
-- @include lib/end_prompt

local function delivered_up_to()
  local groups = redis.pcall('XINFO', 'GROUPS', events)
  for _, flat in ipairs(groups.err and {} or groups) do
    local fields = {}
    for i = 1, #flat, 2 do
      fields[flat[i]] = flat[i + 1]
    end
    if fields['name'] == group then
      return fields['last-delivered-id']
    end
  end
  return nil
end

local function is_after(id, other)
  local ms, order = id:match('^(%d+)-(%d+)$')
  local other_ms, other_order = other:match('^(%d+)-(%d+)$')
  if tonumber(ms) ~= tonumber(other_ms) then
    return tonumber(ms) > tonumber(other_ms)
  end
  return tonumber(order) > tonumber(other_order)
end

local function is_on_its_way(id)
  local delivered = delivered_up_to()
  if #redis.call('XRANGE', events, id, id) == 0 then
    return false
  elseif not delivered or is_after(id, delivered) then
    return true
  end
  return #redis.call('XPENDING', events, group, id, id, 1) > 0
end

if not is_due('settlement') then
  return { 'NOT_DUE' }
elseif text('unsettled') == '' then
  no_deadline('settlement')
  return { 'GONE' }
end

if not is_on_its_way(text('last_entry')) then
  -- It is unsettled, so it was required when the turn ended, whatever the policy is by now.
  set('last_entry', publish_ready('required'))
  count('ready_again')
end
deadline('settlement', tonumber(settlement_ms))
return done('OK', text('last_entry'))
