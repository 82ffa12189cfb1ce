-- The direct prompt that waits in line for its predecessor: one at most, with a deadline of its own.
--
-- @include lib/inbox

local function has_direct()
  return text('direct') ~= '' and is_pending(text('direct'))
end

-- One that was claimed and came back in line has no deadline any more.
local function is_direct_overdue()
  return has_direct() and text('direct_ms') ~= '' and number('direct_ms') <= now
end

-- It waits for an agent no more than any other message that is parked does.
local function is_direct_parked()
  return has_direct() and text('direct_ms') == ''
    and tonumber(redis.call('ZSCORE', awake, text('direct')) or '0') <= number('park_mark')
end

local function drop_direct(why)
  if has_direct() then
    discard(text('direct'), why)
  end
  set('direct', '')
  set('direct_ms', '')
end
