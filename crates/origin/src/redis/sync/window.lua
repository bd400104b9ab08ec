-- Windows: cells of grow-only counts -----------------------------------------------------------------------

local read_window, weigh_window, write_window, window_wait_us

if has_windows then
  local function read_cell(key)
    local values = redis.pcall('HMGET', key, owner, 's', 'f', 'w', 'n', 'x', 'r')
    if values.err then
      return nil, values.err
    end
    local component, added, highest = count(values[1]), count(values[2]), count(values[3])
    local world, owners, expiry_ms = count(values[4]), count(values[5]), count(values[6])
    if not (component and added and highest and world and owners and expiry_ms) then
      return nil, key .. ' holds something that is no count'
    end
    return {
      key = key, component = component, sum = added, total = max(added, highest, component), world = world,
      owners = owners, expiry_ms = expiry_ms, known = values[1], reservations = values[7],
      changed = false, moved = false,
    }
  end

  -- A publish of 0 makes its sender an owner of the current cell, not of the previous: that is only read.
  local function publish(cell, component, claim, expiry_ms, registers)
    if not cell.known and (registers or component > 0) then
      cell.known, cell.changed, cell.moved, cell.owners = true, true, true, cell.owners + 1
    end
    if component > cell.component then
      cell.sum = min(cell.sum + (component - cell.component), COUNT_MAX)
      cell.component, cell.changed = component, true
    end
    local total = max(cell.total, claim, cell.sum)
    if total > cell.total then
      cell.total, cell.changed = total, true
    end
    if expiry_ms > cell.expiry_ms and (cell.changed or cell.expiry_ms > 0) then
      cell.expiry_ms, cell.changed, cell.moved = expiry_ms, true, true
    end
  end

  local function write_cell(cell)
    local key, total, component = cell.key, format('%.0f', cell.total), format('%.0f', cell.component)
    local added = cell.sum == cell.total and total or format('%.0f', cell.sum)
    if not cell.moved then
      call('HSET', key, 's', added, 'f', total, owner, component)
      return
    end
    local owners, expiry_ms = format('%.0f', cell.owners), format('%.0f', cell.expiry_ms)
    if cell.known then
      call('HSET', key, 's', added, 'f', total, 'n', owners, 'x', expiry_ms, owner, component)
    else
      call('HSET', key, 's', added, 'f', total, 'n', owners, 'x', expiry_ms)
    end
    call('PEXPIREAT', key, expiry_ms)
  end

  function read_window(state, at, current_key, previous_key)
    local current, problem = read_cell(current_key)
    if not current then
      return problem
    end
    state.current, state.key = current, current_key
    if previous_key then
      state.previous, problem = read_cell(previous_key)
      if not state.previous then
        return problem
      end
    end
    if not state.stale then
      publish(current, tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]), true)
      if previous_key then
        local component, claim = tonumber(ARGV[at + 9]), tonumber(ARGV[at + 10])
        publish(state.previous, component, claim, tonumber(ARGV[at + 11]), false)
      end
    end
    if current.reservations and (state.wants or state.settled ~= '') then
      local is_read = read_reservations(state, current.reservations)
      return not is_read and current_key .. ' holds something that is no reservation' or nil
    end
  end

  function write_window(state)
    local current, previous, amount = state.current, state.previous, state.amount
    if amount > 0 then
      current.component, current.changed = min(current.component + amount, COUNT_MAX), true
      current.sum, current.total = min(current.sum + amount, COUNT_MAX), min(current.total + amount, COUNT_MAX)
    end
    if current.changed then
      write_cell(current)
    end
    if previous and previous.changed then
      write_cell(previous)
    end
    return current.expiry_ms
  end
end

if has_windows and has_wants then
  local AHEAD_US = 10000 -- of refill that a saturated key may give out in advance

  local function fits(state, spent, ask)
    return ask <= state.room - spent
  end

  -- used = total + world + floor(previous × rest / period); an ask fits beside that and what is reserved.
  function weigh_window(state, at)
    local current, previous, period_us, ahead = state.current, state.previous, tonumber(ARGV[at + 13]), 0
    local used, limit = min(current.total + current.world, COUNT_MAX), tonumber(ARGV[at + 5])
    if period_us then
      state.period_us, state.end_us = period_us, tonumber(ARGV[at + 12])
      state.rest_us = max(min(state.end_us - now_us, period_us), 0)
      state.fading = previous and min(previous.total + previous.world, COUNT_MAX) or 0
      used = min(used + scaled(state.fading, state.rest_us, period_us), COUNT_MAX)
    end
    state.limit, state.room = limit, limit - used - state.reserved
    if state.draws and state.room >= 1 and period_us then
      ahead = scaled(state.fading, AHEAD_US, period_us)
      state.room = state.room + min(ahead, COUNT_MAX - limit)
    end
    grant_asks(state, fits)
    state.drawn = max(min(state.room - state.spent, ahead), 0)
  end

  -- The largest rest of a period at which so much has faded that at most `room` is left of the count. The
  -- quotient is right to within one or two: the exact product decides.
  local function largest_rest_us(number, room, period_us)
    if number <= room then
      return period_us
    end
    local rest_us = min(floor((room + 1) * (period_us / number)), period_us)
    while rest_us > 0 and scaled(number, rest_us, period_us) > room do
      rest_us = rest_us - 1
    end
    while rest_us < period_us and scaled(number, rest_us + 1, period_us) <= room do
      rest_us = rest_us + 1
    end
    return rest_us
  end

  -- How long until `ask` fits if nobody else comes. Where nothing fades, the node knows when its cell ends.
  function window_wait_us(state, ask)
    local room, period_us = state.limit - ask, state.period_us
    local current = min(state.current.total + state.current.world, COUNT_MAX)
    local used = current
    if room < 0 then
      return -1
    end
    if period_us then
      used = min(used + scaled(state.fading, state.rest_us, period_us), COUNT_MAX)
    end
    if used <= room then
      -- Only reservations are in its way, or only the other keys of the request.
      return room - used < state.reserved and state.earliest_us or 0
    end
    if not period_us then
      return -1
    end
    local passes_at_us
    if current <= room then
      passes_at_us = state.end_us - largest_rest_us(state.fading, room - current, period_us)
    else
      -- The current cell must itself become the previous one, and fade.
      passes_at_us = state.end_us + period_us - largest_rest_us(current, room, period_us)
    end
    return max(passes_at_us - now_us, 0)
  end
end

