-- Windows: cells of grow-only counts ------------------------------------------------------------------------
--
-- A cell is the table that HMGET answers, its texts made numbers in place (a table more is a microsecond):
--   1 own component | 2 sum | 3 total | 4 world | 5 owners | 6 expiry ms | 7 published | 8 reservations
--   9 what must be written: nil nothing, 1 the counts, 2 owners and expiry too, 3 all but a component
--   10 the own component as it was before, -1 when there was none
--   11 what is left of the folded components, when this call takes some of them out again

local read_window, write_window, weigh_window, window_wait_us

if has_windows then
  -- Reads a cell and publishes to it. A publish of 0 makes its sender an owner of the current cell, not of the
  -- previous: that is only looked at. Growth beyond what the sender had confirmed, or sent, raises the total by
  -- addition: nobody else can have claimed that.
  local function read_cell(key, component, acked, claim, expiry_ms, is_current)
    local cell = redis.pcall('HMGET', key, owner, 's', 'f', 'w', 'n', 'x', 'p', 'r')
    if cell.err then
      return nil, cell.err
    end
    local is_owner = cell[1]
    for field = 1, 7 do
      local text, number = cell[field], 0
      if text then
        number = text ~= '' and not find(text, '%D') and text + 0
        if not number or number > COUNT_MAX then
          return nil, key .. ' holds something that is no count'
        end
      end
      cell[field] = number
    end
    local total = max(cell[3], cell[2], cell[1])
    cell[3], cell[9] = total, nil
    if acked > 0 and not is_owner then
      -- An owner that was folded is back: its component is taken out of the folded ones again, as much as was confirmed to
      -- it or may have been counted.
      local text = call('HGET', key, 'c:folded')
      local folded = not text and 0 or text ~= '' and not find(text, '%D') and text + 0
      if not folded or folded > COUNT_MAX then
        return nil, key .. ' holds something that is no count'
      end
      cell[1] = min(folded, acked, component)
      cell[11] = cell[1] > 0 and folded - cell[1] or nil
    end
    local stored = cell[1]
    cell[10] = (is_owner or stored > 0) and stored or -1
    if component > stored then
      cell[1], cell[2], cell[9] = component, min(cell[2] + (component - stored), COUNT_MAX), 1
      if component > acked then
        total = min(total + component - max(acked, stored), COUNT_MAX)
      end
      total = max(total, cell[2])
    end
    total = max(total, claim)
    if total > cell[3] then
      cell[3], cell[9] = total, 1
    end
    if not is_owner and (is_current or component > 0) then
      cell[5], cell[9], is_owner = cell[5] + 1, 2, true
    end
    if expiry_ms > cell[6] and (cell[9] or cell[6] > 0) then
      cell[6], cell[9] = expiry_ms, 2
    end
    if cell[9] and not is_owner then
      cell[9] = 3
    end
    return cell
  end

  local function write_cell(key, cell)
    local component, total = format('%d', cell[1]), format('%d', cell[3])
    if cell[11] then
      call('HSET', key, 'c:folded', format('%d', cell[11]))
    end
    local added = cell[2] == cell[3] and total or format('%d', cell[2])
    if cell[9] == 1 then
      call('HSET', key, 's', added, 'f', total, owner, component)
      return
    end
    local owners, expiry_ms = format('%d', cell[5]), format('%d', cell[6])
    if cell[9] == 2 then
      call('HSET', key, 's', added, 'f', total, 'n', owners, 'x', expiry_ms, owner, component)
    else
      call('HSET', key, 's', added, 'f', total, 'n', owners, 'x', expiry_ms)
    end
    call('PEXPIRE', key, format('%d', max(cell[6] - now_ms, 1)))
  end

  function read_window(state, at)
    local cell, key, previous_key = nil, state.key, state.previous_key
    if state.problem then
      return
    end
    if state.missed then
      cell, state.problem = read_cell(key, 0, 0, 0, ARGV[at + 8] + 0, not state.peeks)
    else
      local component, acked, claim = ARGV[at + 6] + 0, ARGV[at + 15] + 0, ARGV[at + 7] + 0
      cell, state.problem = read_cell(key, component, acked, claim, ARGV[at + 8] + 0, not state.peeks)
    end
    state.current = cell
    if cell and previous_key and state.missed then
      state.previous, state.problem = read_cell(previous_key, 0, 0, 0, ARGV[at + 11] + 0)
    elseif cell and previous_key then
      local component, acked, claim = ARGV[at + 9] + 0, ARGV[at + 16] + 0, ARGV[at + 10] + 0
      state.previous, state.problem = read_cell(previous_key, component, acked, claim, ARGV[at + 11] + 0)
    end
    if state.wants and not state.problem then
      if cell[8] and not read_reservations(state, cell[8]) then
        state.problem = key .. ' holds something that is no reservation'
      else
        weigh_window(state, at)
      end
    end
  end

  function write_window(state, amount)
    local current, previous = state.current, state.previous
    if amount > 0 then
      current[1], current[2] = min(current[1] + amount, COUNT_MAX), min(current[2] + amount, COUNT_MAX)
      current[3], current[9] = min(current[3] + amount, COUNT_MAX), current[9] or 1
    end
    if current[9] then
      write_cell(state.key, current)
    end
    if previous and previous[9] then
      write_cell(state.previous_key, previous)
    end
    return current[6]
  end
end

if has_windows and has_wants then
  local AHEAD_US = 10000 -- of refill that a saturated key may give out in advance
  local CREDIT_WAIT_US = 100000 -- about as long as it takes until the other regions have heard

  -- How much may still be granted before the other regions hear of what this one has: half of what is left of
  -- the limit, divided by the regions, at least a fortieth of the limit. What costs more than that passes when
  -- nothing is unpublished, or it never would.
  local function credit_left(state, used, ask)
    local regions, current, limit = state.regions, state.current, state.limit
    local credit = max(floor(max(limit - used, 0) / (2 * regions)), floor(limit / (40 * regions)), 1)
    local unpublished = max(current[3] - current[7], 0) + state.reserved
    return unpublished == 0 and max(credit, ask) or max(credit - unpublished, 0)
  end

  local function fits(state, spent, ask)
    return ask <= state.room - spent
  end

  -- used = total + world + floor(previous × rest / period); an ask fits beside that and what is reserved.
  function weigh_window(state, at)
    local current, previous = state.current, state.previous
    local limit, ends_us, period_us, ahead = tonumber(ARGV[at + 5]), ARGV[at + 12], ARGV[at + 13], 0
    local used = min(current[3] + current[4], COUNT_MAX)
    state.limit, state.regions = limit, ARGV[at + 14] + 0
    if period_us ~= '' then
      state.period_us, state.end_us = tonumber(period_us), tonumber(ends_us)
      state.rest_us = max(min(state.end_us - now_us, state.period_us), 0)
      state.fading = previous and min(previous[3] + previous[4], COUNT_MAX) or 0
      used = min(used + scaled(state.fading, state.rest_us, state.period_us), COUNT_MAX)
    end
    state.room = limit - used - state.reserved
    if state.draws and state.room >= 1 and state.period_us then
      ahead = scaled(state.fading, AHEAD_US, state.period_us)
      state.room = state.room + min(ahead, COUNT_MAX - limit)
    end
    if state.regions > 1 then
      local first = match(state.asks, '%d+')
      state.room = min(state.room, credit_left(state, used, first and first + 0 or 0))
    end
    grant_asks(state, fits)
    local left = state.room - state.spent
    state.drawn = state.most and leased(state, left) or max(min(left, ahead), 0)
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
    local current = state.current
    local room, period_us = state.limit - ask, state.period_us
    local counted = min(current[3] + current[4], COUNT_MAX)
    local used = counted
    if room < 0 then
      return -1
    end
    if period_us then
      used = min(used + scaled(state.fading, state.rest_us, period_us), COUNT_MAX)
    end
    if used <= room then
      -- Only reservations are in its way, or what the other regions haven't heard of, or only the other keys of
      -- the request.
      if room - used < state.reserved then
        return state.earliest_us
      end
      return state.regions > 1 and credit_left(state, used, ask) < ask and CREDIT_WAIT_US or 0
    end
    if not period_us then
      return -1
    end
    local passes_at_us
    if counted <= room then
      passes_at_us = state.end_us - largest_rest_us(state.fading, room - counted, period_us)
    else
      -- The current cell must itself become the previous one, and fade.
      passes_at_us = state.end_us + period_us - largest_rest_us(counted, room, period_us)
    end
    return max(passes_at_us - now_us, 0)
  end
end

