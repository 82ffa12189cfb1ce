-- The end of every script that changed something: the record is written, waiters are told, the word is given.
--
-- ARGV  session_id  id    the session
-- ARGV  channels    text  prefix of the pub/sub channels
-- @include lib/record

local worker_hint, hinted_worker = nil, nil

-- The last hint counts, and goes to the worker that hosts the execution now.
local function tell_worker(...)
  if text('worker_id') ~= '' then
    worker_hint, hinted_worker = table.concat({ ... }, ' '), text('worker_id')
  end
end

local function hint_worker()
  tell_worker('run', session_id, text('activity'))
end

-- For a driver that may wait for what was changed, with nothing open.
local function hint_waiting()
  if text('phase') == 'running' and text('open_claim') == '' then
    hint_worker()
  end
end

-- A refused PUBLISH (rights, a dying replica link) must not tear what is already written: pcall, and last.
local function done(...)
  write_record()
  redis.pcall('PUBLISH', channels .. 'hint:' .. session_id, (...))
  if worker_hint then
    redis.pcall('PUBLISH', channels .. 'control:' .. hinted_worker, worker_hint)
  end
  return { ... }
end
