-- The exchange: read and weigh all keys, then write and answer all ------------------------------------------

local states, blocked = {}, false
local epochs = call('MGET', unpack(KEYS, 1, syncs))
local at, next_key = 6, syncs + 1
for n = 1, syncs do
  local is_window, asks, extras, settled = ARGV[at] == 'w', ARGV[at + 3], ARGV[at + 4], ARGV[at + 2]
  local key, previous_key, state = KEYS[next_key], nil, nil
  if is_window and ARGV[at + 9] ~= '' then
    previous_key, next_key = KEYS[next_key + 1], next_key + 1
  end
  next_key = next_key + 1
  if replies[n + 2] then
    at = at + 17
  else
    local wants = asks ~= '' or extras ~= '' or settled ~= ''
    -- As many fields as there will be, more or less, at once: a table that grows is slow.
    if is_window and not wants then
      state = {
        is_window = true, epoch = ARGV[at + 1] + 0, key = key, previous_key = previous_key, asks = '',
        granted = '', spent = 0, drawn = 0, current = nil, previous = nil, problem = nil, missed = nil,
      }
    else
      state = {
        is_window = is_window, epoch = ARGV[at + 1] + 0, key = key, previous_key = previous_key, asks = asks,
        granted = '', spent = 0, drawn = 0, wants = wants, settled = settled, reserved = 0, reservations = '',
        draws = find(extras, '^d'), reserve = match(extras, 'r(%x+)'), asked = 0, refused = nil,
        problem = nil, missed = nil, most = nil, parts = nil, peeks = extras == 'p',
      }
      local most, parts = match(extras, '^d?l(%d+):(%d+);')
      if most then
        state.most, state.parts, state.draws = most + 0, parts + 0, nil
      end
    end
    if epochs[n] then
      local epoch, expiry_ms = match(epochs[n], '^(%d+):(%d+)$')
      epoch, expiry_ms = tonumber(epoch), tonumber(expiry_ms)
      if not epoch or epoch > 65535 or expiry_ms > COUNT_MAX then
        state.problem = KEYS[n] .. ' holds something that is no epoch'
      else
        state.stored_epoch, state.epoch_expiry_ms = epoch, expiry_ms
      end
      if epoch and epoch > state.epoch then
        -- The node missed a reset: it publishes nothing, and asks in the new epoch.
        state.missed, state.epoch = true, epoch
        local stem = string.sub(KEYS[n], 1, -2) .. format('%d', epoch)
        state.key = stem .. match(key, ':%w+$')
        state.previous_key = previous_key and stem .. match(previous_key, ':%w+$')
      end
    end
    if is_window then
      read_window(state, at)
      at = at + 17
    else
      read_gcra(state, at)
      at = at + 14
    end
    blocked = blocked or (asks ~= '' and (state.problem or state.refused))
    states[n] = state
  end
end

local cancels = blocked and ARGV[3] == 'together'
for n = 1, syncs do
  local state = states[n]
  if state and state.problem then
    replies[n + 2] = state.problem
  elseif state then
    local epoch = state.epoch
    if cancels and state.wants then
      cancel(state)
    end
    -- Reservations first: what is new is given its expiry with its counts.
    if state.wants then
      write_reservations(state)
    end
    local amount = state.drawn + (state.reserve and 0 or state.spent)
    local expiry_ms = state.is_window and write_window(state, amount) or write_gcra(state, amount)
    local stored_epoch, stored_ms = state.stored_epoch or 0, state.epoch_expiry_ms or 0
    if not state.peeks and (epoch > stored_epoch or epoch > 0 and expiry_ms > stored_ms) then
      local expiry = max(expiry_ms, stored_ms)
      call('SET', KEYS[n], format('%d:%d', epoch, expiry), 'PX', format('%d', max(expiry - now_ms, 1)))
    end
    if state.is_window then
      local cell, before = state.current, state.previous
      local wait_us = state.refused and window_wait_us(state, state.refused) or -1
      if before then
        replies[n + 2] = {
          epoch, cell[1], cell[3], cell[4], cell[7], cell[5], before[1], before[3], before[4], before[7],
          state.drawn, wait_us, state.granted, cell[10],
        }
      else
        replies[n + 2] = {
          epoch, cell[1], cell[3], cell[4], cell[7], cell[5], -1, 0, 0, 0, state.drawn, wait_us, state.granted,
          cell[10],
        }
      end
    else
      local wait_s, wait_ns = -1, 0
      if state.refused then
        wait_s, wait_ns = gcra_wait(state, state.refused)
      end
      replies[n + 2] = {
        epoch, state.component, state.owners, state.tat_s, state.tat_ns, state.since_s, state.since_ns,
        state.drawn, wait_s, wait_ns, state.granted, state.was,
      }
    end
  end
end
return replies
