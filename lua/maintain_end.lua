-- FLAGS allow-oom
-- A maintenance job is over; what woke the session meanwhile runs now.
--
-- ARGV  token  id  the job's
-- Replies
--   OK          place  the token for which a placement has to be offered, or empty
--   SUPERSEDED         it is no longer the session's activity
-- @include lib/end_maintenance

if text('phase') ~= 'maintenance' or text('activity') ~= token then
  return { 'SUPERSEDED' }
end
return done('OK', end_maintenance('cancelled'))
