-- FLAGS allow-oom
-- A maintenance job is over; what woke the session meanwhile runs now.
--
-- ARGV  token  id  the job's
-- Replies
--   OK          place  the token for which a placement has to be offered, or empty; the same again for a repeat
--   SUPERSEDED         it is no longer the session's activity, or was ended by a deadline
-- @include lib/end_maintenance

if text('maintenance_last') == token and text('maintenance_lost') == '' then
  return { 'OK', placed_before() }
elseif text('phase') ~= 'maintenance' or text('activity') ~= token then
  return { 'SUPERSEDED' }
end
return done('OK', end_maintenance('cancelled'))
