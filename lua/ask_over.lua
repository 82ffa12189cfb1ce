-- FLAGS allow-oom
-- The agent no longer waits for the answer to its question. The question stays.
--
-- ARGV  question_id  id  the question
-- Replies
--   OK
--   GONE  it is no longer the session's question
-- @include lib/done

if text('question_id') ~= question_id then
  return { 'GONE' }
end

set('question_waits', '')
return done('OK')
