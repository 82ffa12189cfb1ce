-- A stop, and what is over when it comes: deadlines are applied first, as a sweep would.
--
-- @include lib/over
-- @include lib/endings

local is_written, placed = false, ''

-- Answers the token for which a placement has to be offered, or ''.
local function apply_overdue()
  local open, place = text('open_claim') ~= '', nil
  if is_stopping() and is_over('cancel') then
    place = escalate('cancel not acknowledged in time')
  elseif open and text('open_accepted') == '' and is_over('acceptance') then
    place = refuse_prompt()
  elseif text('execution_status') == 'starting' and is_over('start') then
    place = fail_start()
  elseif text('phase') == 'maintenance' and is_over('maintenance') then
    place = end_maintenance('escalated')
  elseif is_resetting() and is_over('reset') then
    place = fail_call('not answered in time')
  end
  is_written, placed = place ~= nil, place or ''
  return placed
end

-- For what is open: the operation that is recorded is joined, or one begins. A worker that is gone can't end its prompt:
-- it has ended as escalated then. Answers the token for which a placement has to be offered, or '', for an operation
-- that has ended so, else nil.
local function stop(id, kind)
  if is_stopping() then
    join_operation(kind)
  else
    begin_operation(id, kind)
  end
  if text('open_claim') ~= '' and is_over('lease') then
    return escalate('its worker is gone')
  end
  return nil
end

-- A refusal writes nothing; only an overdue end that was met on the way is kept, and what that began is placed by the
-- next sweep.
local function refuse(...)
  if not is_written then
    return { ... }
  elseif placed ~= '' then
    deadline('placement', 0)
  end
  return done(...)
end
