-- The server's clock. Deadlines and leases are compared with nothing else.

local now = (function()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end)()

local function int(value)
  return string.format('%.0f', value)
end
