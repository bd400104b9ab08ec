-- The exchange: read all, decide, write all -----------------------------------------------------------------

local states, blocked = {}, false
local epochs = call('MGET', unpack(KEYS, 1, syncs))
local at, next_key = 6, syncs + 1
for n = 1, syncs do
  local is_window, asks, extras = ARGV[at] == 'w', ARGV[at + 3], ARGV[at + 4]
  local name, previous, problem = KEYS[next_key], nil, nil
  if is_window and ARGV[at + 9] ~= '' then
    previous = KEYS[next_key + 1]
  end
  next_key = next_key + (previous and 2 or 1)
  -- All fields at once: a table that grows is slow.
  local state = {
    epoch = tonumber(ARGV[at + 1]), stored_epoch = 0, epoch_expiry_ms = 0, stale = nil, problem = nil,
    asks = asks, wants = asks ~= '' or extras ~= '', draws = nil, reserve = nil, settled = ARGV[at + 2],
    granted = '', asked = 0, spent = 0, drawn = 0, amount = 0, refused = nil, reserved = 0, reservations = '',
    is_window = is_window, key = nil, current = nil, previous = nil,
  }
  if state.wants then
    state.draws, state.reserve = find(extras, 'd', 1, true), match(extras, 'r(%x+)')
  end
  if epochs[n] then
    local epoch, expiry_ms = match(epochs[n], '^(%d+):(%d+)$')
    epoch, expiry_ms = tonumber(epoch), tonumber(expiry_ms)
    if not epoch or epoch > 65535 or expiry_ms > COUNT_MAX then
      problem = KEYS[n] .. ' holds something that is no epoch'
    elseif epoch > state.epoch then
      -- The node missed a reset: it publishes nothing, and is told of the new epoch's counts.
      state.stale, state.epoch, state.settled, state.wants = true, epoch, '', false
      state.granted = string.rep('0', select(2, string.gsub(asks, '%d+', '')))
      local stem = string.sub(KEYS[n], 1, -2) .. format('%.0f', epoch)
      name, previous = stem .. match(name, ':%w+$'), previous and stem .. match(previous, ':%w+$')
    else
      state.stored_epoch, state.epoch_expiry_ms = epoch, expiry_ms
    end
  end
  if is_window then
    problem = problem or read_window(state, at, name, previous)
    if state.wants and not problem then
      weigh_window(state, at)
    end
    at = at + 14
  else
    problem = problem or read_gcra(state, at, name)
    if state.wants and not problem then
      weigh_gcra(state)
    end
    at = at + 13
  end
  state.problem = problem
  blocked = blocked or (asks ~= '' and (problem or state.stale or state.refused))
  states[n] = state
end

local cancels = blocked and ARGV[3] == 'together'
local replies = { tonumber(time[1]), tonumber(time[2]) }
for n = 1, syncs do
  local state = states[n]
  if state.problem then
    replies[n + 2] = state.problem
  else
    if cancels and state.wants then
      cancel(state)
    end
    if not state.stale then
      state.amount = state.drawn + (state.reserve and 0 or state.spent)
      local expiry_ms = state.is_window and write_window(state) or write_gcra(state)
      if state.reserve and state.spent > 0 then
        local held = format('%s:%.0f:%.0f;', state.reserve, state.spent, present_us + RESERVED_US)
        state.reservations, state.reservations_changed = state.reservations .. held, true
      end
      if state.reservations_changed then
        if state.reservations == '' then
          call('HDEL', state.key, 'r')
        else
          call('HSET', state.key, 'r', state.reservations)
        end
      end
      if state.epoch > state.stored_epoch or (state.epoch > 0 and expiry_ms > state.epoch_expiry_ms) then
        local expiry = format('%.0f', max(expiry_ms, state.epoch_expiry_ms))
        call('SET', KEYS[n], format('%.0f', state.epoch) .. ':' .. expiry, 'PXAT', expiry)
      end
    end
    if state.is_window then
      local cell, before = state.current, state.previous
      local wait_us = state.refused and window_wait_us(state, state.refused) or -1
      replies[n + 2] = {
        state.epoch, cell.component, cell.total, cell.world, cell.owners,
        before and before.component or -1, before and before.total or 0, before and before.world or 0,
        state.drawn, wait_us, state.granted,
      }
    else
      local wait_s, wait_ns = -1, 0
      if state.refused then
        wait_s, wait_ns = gcra_wait(state, state.refused)
      end
      replies[n + 2] = {
        state.epoch, state.component, state.owners, state.tat_s, state.tat_ns, state.since_s, state.since_ns,
        state.drawn, wait_s, wait_ns, state.granted,
      }
    end
  end
end
return replies
