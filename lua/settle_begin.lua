-- FLAGS allow-oom
-- A replica asks, under the guard and before any handler runs, whether the ready is still current.
--
-- KEYS  events    stream  where the entry is pending
-- ARGV  group     text    the replicas' group
-- ARGV  entry_id  id      the entry
-- Replies
--   OK          failures  handler failures so far
--   STALE       why       acknowledged, counted and logged
--   NO_SESSION            the same for a session that is not there
--   GUARDED     ms_left
--   GUARD_LOST
-- @include lib/ready

local refusal = check_ready()
if refusal then
  if refusal[1] == 'STALE' or refusal[1] == 'NO_SESSION' then
    redis.call('XACK', events, group, entry_id)
    note_stale(refusal[2])
  end
  return refusal
end
return { 'OK', int(number('handler_failures')) }
