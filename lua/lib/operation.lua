-- The cancel operation of a session: at most one, recorded for what is open, ended by whatever ends that.
--
-- ARGV  cancel_ms  ms  until an operation that is not acknowledged is escalated
-- @include lib/stopping
-- @include lib/deadline
-- @include lib/log
-- @include lib/done

local function is_exclusive(kind)
  return kind == 'replace' or kind == 'system'
end

local function note_operation(entry, outcome)
  set('cancel_revision', number('cancel_revision') + 1)
  local whose = text('open_claim') ~= '' and 'open_' or text('phase') ~= 'maintenance' and 'last_' or 'no_'
  log_entry(entry, 'operation_id', text('cancel_id'), 'kind', text('cancel_kind'), 'revision',
    text('cancel_revision'), 'turn', text(whose .. 'turn'), 'generation', text(whose .. 'generation'), 'outcome', outcome)
end

local function hint_abort()
  if text('open_claim') ~= '' then
    tell_worker('abort', session_id, text('open_generation'), text('activity'), text('cancel_cause'))
  end
end

local function begin_operation(id, kind)
  set('cancel_id', id)
  set('cancel_kind', kind)
  set('cancel_cause', kind)
  deadline('cancel', tonumber(cancel_ms))
  note_operation('cancel.requested', '')
  hint_abort()
end

-- Joining never moves the deadline, and never lowers the kind; the cause that the agent is shown stays the first.
local function join_operation(kind)
  if outranks(kind, text('cancel_kind')) and not (kind == 'user' and is_exclusive(text('cancel_kind'))) then
    set('cancel_kind', kind)
    note_operation('cancel.requested', '')
  end
  hint_abort()
end

local function settle_operation(outcome)
  if not is_stopping() then
    return
  end
  note_operation('cancel.settled', outcome)
  count('cancel.' .. outcome)
  set('cancel_last', text('cancel_id'))
  set('cancel_outcome', outcome)
  for _, field in ipairs({ 'cancel_id', 'cancel_kind', 'cancel_cause' }) do
    set(field, '')
  end
  no_deadline('cancel')
end
