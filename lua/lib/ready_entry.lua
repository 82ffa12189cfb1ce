-- A ready as a replica has it from the stream: one that names nothing current is acknowledged, and only counted.
--
-- KEYS  events    stream  where the entry is pending
-- ARGV  group     text    the replicas' group
-- ARGV  entry_id  id      the entry
-- @include lib/ready

-- The reply to a ready that is not to be settled now, or nil.
local function ready_refused()
  local refusal = check_ready()
  if refusal and (refusal[1] == 'STALE' or refusal[1] == 'NO_SESSION') then
    redis.call('XACK', events, group, entry_id)
    note_stale(refusal[2])
  end
  return refusal
end
