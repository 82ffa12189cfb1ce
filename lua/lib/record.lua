-- The session record: read once, changed in memory, written once by `write_record`.
--
-- KEYS  session  hash  the record; a field that would be empty is absent

local record, changed = {}, {}
do
  local flat = redis.call('HGETALL', session)
  for i = 1, #flat, 2 do
    record[flat[i]] = flat[i + 1]
  end
end

local function text(field)
  return record[field] or ''
end

local function number(field)
  return tonumber(record[field] or '0')
end

local function set(field, value)
  if type(value) == 'number' then
    value = string.format('%.0f', value)
  end
  if value ~= (record[field] or '') then
    record[field] = value ~= '' and value or nil
    changed[field] = value
  end
end

local function write_record()
  local sets, dels = {}, {}
  for field, value in pairs(changed) do
    if value == '' then
      dels[#dels + 1] = field
    else
      sets[#sets + 1] = field
      sets[#sets + 1] = value
    end
  end
  if #sets > 0 then
    redis.call('HSET', session, unpack(sets))
  end
  if #dels > 0 then
    redis.call('HDEL', session, unpack(dels))
  end
end
