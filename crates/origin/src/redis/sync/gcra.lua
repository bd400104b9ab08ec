-- GCRA: one arrival time for all nodes ----------------------------------------------------------------------

local read_gcra, weigh_gcra, write_gcra, gcra_wait

if has_gcra then
  local SECOND = 1000000000 -- in ns
  local LAST_S, LAST_NS = 18446744073, 709551615 -- the end of time: 2^64 - 1 ns
  -- A state outlives its arrival time by 60 s. It is set with 15 s to spare, so that not every charge moves it.
  local KEPT_MS, KEPT_MORE_MS = 60000, 15000
  local fmod, ceil = math.fmod, math.ceil

  -- A count out of a hash: nil when it is none.
  local function count(text)
    if not text then
      return 0
    end
    local number = text ~= '' and not find(text, '%D') and text + 0
    return number and number <= COUNT_MAX and number or nil
  end

  -- Seconds and nanoseconds; nil when it is no instant.
  local function instant(text)
    if not text or text == '0.000000000' then
      return 0, 0
    end
    local seconds, nanos = match(text, '^(%d+)%.(%d%d%d%d%d%d%d%d%d)$')
    if seconds and seconds + 0 <= LAST_S then
      return seconds + 0, nanos + 0
    end
  end

  local function is_after(a_s, a_ns, b_s, b_ns)
    return a_s > b_s or (a_s == b_s and a_ns > b_ns)
  end

  -- Stops at the end of time.
  local function plus(a_s, a_ns, b_s, b_ns)
    local seconds, nanos = a_s + b_s, a_ns + b_ns
    if nanos >= SECOND then
      seconds, nanos = seconds + 1, nanos - SECOND
    end
    if seconds >= LAST_S and is_after(seconds, nanos, LAST_S, LAST_NS) then
      return LAST_S, LAST_NS
    end
    return seconds, nanos
  end

  -- 0 when b is the later.
  local function minus(a_s, a_ns, b_s, b_ns)
    local seconds, nanos = a_s - b_s, a_ns - b_ns
    if nanos < 0 then
      seconds, nanos = seconds - 1, nanos + SECOND
    end
    if seconds < 0 then
      return 0, 0
    end
    return seconds, nanos
  end

  -- nil when it is no interval. Keys of one rule have the same: it is read once.
  local intervals = {}
  local function interval(text)
    if not intervals[text] then
      local s, ns, p, d = match(text, '^(%d+):(%d+):(%d+):(%d+)$')
      s, ns, p, d = tonumber(s), tonumber(ns), tonumber(p), tonumber(d)
      if s and s <= LAST_S and ns < SECOND and d <= COUNT_MAX and p < d and s + ns + p > 0 then
        intervals[text] = { s = s, ns = ns, p = p, d = d, length_ns = s * SECOND + ns + p / d, text = text }
      end
    end
    return intervals[text]
  end

  -- units × interval: whole seconds, whole nanoseconds, and the fraction of one that is left.
  local function times(units, i)
    if units * i.length_ns > LAST_S * SECOND then
      return LAST_S, LAST_NS, 0
    end
    local seconds, product, left = units * i.s, units * i.ns, 0
    local nanos = fmod(product, SECOND)
    if product < COUNT_MAX then
      seconds = seconds + (product - nanos) / SECOND
    else
      -- units = high × 10^9 + middle × 2^15 + low: each product stays below 2^53.
      local rest = fmod(units, SECOND)
      local low = fmod(rest, 32768)
      local middle = (rest - low) / 32768 * i.ns
      local middle_ns = fmod(middle, SECOND)
      local low_ns = middle_ns * 32768 + low * i.ns
      nanos = fmod(low_ns, SECOND)
      seconds = seconds + (units - rest) / SECOND * i.ns + (middle - middle_ns) / SECOND * 32768
      seconds = seconds + (low_ns - nanos) / SECOND
    end
    if i.p > 0 then
      local whole
      if i.d < 35184372088832 then -- 2^45
        whole, left = scaled(units, i.p, i.d)
        left = left / i.d
      else
        left = units * (i.p / i.d)
        whole = floor(left)
        left = left - whole
      end
      local whole_ns = fmod(whole, SECOND)
      seconds, nanos = plus(seconds + (whole - whole_ns) / SECOND, nanos, 0, whole_ns)
    end
    return seconds, nanos, left
  end

  -- units × interval, rounded up to a nanosecond.
  local function charge(units, i)
    local seconds, nanos, left = times(units, i)
    if left > 0 then
      return plus(seconds, nanos, 0, 1)
    end
    return seconds, nanos
  end

  -- The busy period before this one becomes another one; 0, 0, 0, 0: none is known.
  local function set_before(state, from_s, from_ns, to_s, to_ns)
    local before = state.before
    if before[1] ~= from_s or before[2] ~= from_ns or before[3] ~= to_s or before[4] ~= to_ns then
      state.before, state.before_changed = { from_s, from_ns, to_s, to_ns }, true
    end
  end

  -- The bucket is full, and a busy period begins.
  local function begin(state, at_s, at_ns)
    set_before(state, state.since_s, state.since_ns, state.tat_s, state.tat_ns)
    state.tat_s, state.tat_ns, state.since_s, state.since_ns = at_s, at_ns, at_s, at_ns
  end

  -- Admissions that began before this busy period did are partly paid by the idle time between. That pays once: it is
  -- part of the busy period before from then on.
  local function charge_late(state, length_s, length_ns, oldest_s, oldest_ns)
    local from_s, from_ns, to_s, to_ns = unpack(state.before)
    if is_after(oldest_s, oldest_ns, to_s, to_ns) then
      from_s, from_ns = oldest_s, oldest_ns
      to_s, to_ns = plus(oldest_s, oldest_ns, length_s, length_ns)
    else
      local idle_s, idle_ns = minus(from_s, from_ns, oldest_s, oldest_ns)
      local extra_s, extra_ns = minus(length_s, length_ns, idle_s, idle_ns)
      if extra_s > 0 or extra_ns > 0 then
        to_s, to_ns = plus(to_s, to_ns, extra_s, extra_ns)
        if is_after(from_s, from_ns, oldest_s, oldest_ns) then
          from_s, from_ns = oldest_s, oldest_ns
        end
      end
    end
    if is_after(to_s, to_ns, state.since_s, state.since_ns) then
      -- There was no idle time between.
      local extra_s, extra_ns = minus(to_s, to_ns, state.since_s, state.since_ns)
      state.tat_s, state.tat_ns = plus(state.tat_s, state.tat_ns, extra_s, extra_ns)
      if is_after(state.since_s, state.since_ns, from_s, from_ns) then
        state.since_s, state.since_ns = from_s, from_ns
      end
      from_s, from_ns, to_s, to_ns = 0, 0, 0, 0
    end
    set_before(state, from_s, from_ns, to_s, to_ns)
  end

  -- Steps 1 to 3 of the scheme: charge what is new, adopt the node's pair if it is ahead.
  local function merge(state, cumulative, acked, sent, oldest, tat, since)
    -- A store that knows less than it once confirmed lost data: the nodes' pairs restore what it had counted. What was
    -- admitted since is in no other node's pair.
    local has_lost = state.component < acked
    local counted = has_lost and max(acked, sent) or state.component
    if cumulative > counted then
      local oldest_s, oldest_ns = instant(oldest)
      local length_s, length_ns = charge(cumulative - counted, state.interval)
      if is_after(oldest_s, oldest_ns, state.tat_s, state.tat_ns) then
        begin(state, oldest_s, oldest_ns)
      end
      if is_after(state.since_s, state.since_ns, oldest_s, oldest_ns) then
        charge_late(state, length_s, length_ns, oldest_s, oldest_ns)
      else
        state.tat_s, state.tat_ns = plus(state.tat_s, state.tat_ns, length_s, length_ns)
      end
    end
    if cumulative > state.component then
      state.component, state.changed = cumulative, true
    end
    local tat_s, tat_ns = instant(tat)
    local is_same = has_lost and tat_s == state.tat_s and tat_ns == state.tat_ns
    if is_same or is_after(tat_s, tat_ns, state.tat_s, state.tat_ns) then
      state.tat_s, state.tat_ns, state.changed = tat_s, tat_ns, true
      state.since_s, state.since_ns = instant(since)
      -- What was before may be part of what the pair says.
      set_before(state, 0, 0, 0, 0)
    end
  end

  -- A changed rate keeps what was spent: tat − now becomes as many of the new intervals as it was old ones.
  local function rescale(state, from)
    local i = state.interval
    local debt_s, debt_ns = minus(state.tat_s, state.tat_ns, now_s, now_ns)
    local units = min(floor((debt_s * SECOND + debt_ns) / from.length_ns), COUNT_MAX)
    local seconds, nanos, left = times(units, from)
    local rest_ns = (debt_s - seconds) * SECOND + (debt_ns - nanos) - left
    if rest_ns < 0 and units > 0 then
      seconds, nanos, left = times(units - 1, from)
      units, rest_ns = units - 1, (debt_s - seconds) * SECOND + (debt_ns - nanos) - left
    end
    seconds, nanos, left = times(units, i)
    local more_ns = ceil(left + rest_ns * (i.length_ns / from.length_ns))
    local more_s = min(floor(more_ns / SECOND), LAST_S)
    seconds, nanos = plus(seconds, nanos, more_s, fmod(more_ns, SECOND))
    state.tat_s, state.tat_ns = plus(now_s, now_ns, seconds, nanos)
  end

  -- A lowered burst leaves one empty bucket of the debt, unless post-paid charges took more than the old one: BurstMemory
  -- in crates/core/src/gcra_sync.rs. `remembered` is "<burst>" or "<burst>:<instant at which a debt was forgiven>".
  local function change_burst(state, burst, remembered)
    local old, forgiven = match(remembered or '0', '^(%d+):?([%d.]*)$')
    old = old and count(old)
    local at_s, at_ns = instant(forgiven ~= '' and forgiven or nil)
    if not old or not at_s then
      return false
    end
    local now_old = max(old, burst)
    if burst < old then
      local full_s, full_ns = charge(burst, state.interval)
      local before_s, before_ns = charge(old, state.interval)
      local owed_s, owed_ns = minus(state.tat_s, state.tat_ns, now_s, now_ns)
      local grace_s, grace_ns = plus(full_s, full_ns, 1, 0)
      if not is_after(owed_s, owed_ns, grace_s, grace_ns) then
        local until_s, until_ns = plus(at_s, at_ns, before_s, before_ns)
        if is_after(now_s, now_ns, until_s, until_ns) then
          now_old = burst
        end
      else
        local again_s, again_ns = plus(at_s, at_ns, full_s, full_ns)
        before_s, before_ns = plus(before_s, before_ns, 1, 0)
        if not is_after(owed_s, owed_ns, before_s, before_ns) and not is_after(again_s, again_ns, now_s, now_ns) then
          state.tat_s, state.tat_ns = plus(now_s, now_ns, full_s, full_ns)
          if is_after(state.since_s, state.since_ns, now_s, now_ns) then
            state.since_s, state.since_ns = now_s, now_ns
          end
          set_before(state, 0, 0, 0, 0)
          at_s, at_ns = now_s, now_ns
        end
      end
    end
    local text = format('%d', now_old)
    if at_s > 0 then
      text = text .. format(':%d.%09d', at_s, at_ns)
    end
    if text ~= remembered then
      state.bursts, state.changed = text, true
    end
    return true
  end

  function read_gcra(state, at)
    local key = state.key
    if state.problem then
      return
    end
    local values = redis.pcall('HMGET', key, owner, 'n', 'x', 'tat', 'b', 'i', 'r', 'd', 'e', 'u')
    if values.err then
      state.problem = values.err
      return
    end
    local component, owners, expiry_ms = count(values[1]), count(values[2]), count(values[3])
    local tat_s, tat_ns = instant(values[4])
    local since_s, since_ns = instant(values[5])
    local from_s, from_ns = instant(values[8])
    local to_s, to_ns = instant(values[9])
    local i = interval(ARGV[at + 12])
    local from = values[6] and interval(values[6]) or not values[6] and i
    if not (component and owners and expiry_ms and tat_s and since_s and from_s and to_s and from) then
      state.problem = key .. ' holds something that is no arrival time'
      return
    end
    local acked = ARGV[at + 8] + 0
    if acked > 0 and not values[1] and not state.missed then
      -- As in window.lua: an owner that was folded is back.
      local folded = count(call('HGET', key, 'c:folded'))
      if not folded then
        state.problem = key .. ' holds something that is no count'
        return
      end
      component = min(folded, acked, ARGV[at + 7] + 0)
      state.folded = component > 0 and folded - component or nil
    end
    state.component, state.owners, state.expiry_ms = component, owners, expiry_ms
    state.was = (values[1] or component > 0) and component or -1
    state.tat_s, state.tat_ns, state.since_s, state.since_ns = tat_s, tat_ns, since_s, since_ns
    if is_after(to_s, to_ns, since_s, since_ns) then
      -- A script of before these fields moved the busy period on, or back: what was before it is no longer known.
      from_s, from_ns, to_s, to_ns = 0, 0, 0, 0
    end
    state.before = { from_s, from_ns, to_s, to_ns }
    state.interval = i
    state.peeks = state.peeks and not values[1]
    if not values[1] and not state.peeks then
      state.owners = owners + 1
    end
    state.moved = not state.peeks and (not values[1] or not values[6] or from ~= i)
    if from ~= i and not state.peeks then
      set_before(state, 0, 0, 0, 0)
      if is_after(tat_s, tat_ns, now_s, now_ns) then
        rescale(state, from)
      end
    end
    if not state.missed and not state.peeks then
      local cumulative, acked, sent = ARGV[at + 7] + 0, ARGV[at + 8] + 0, ARGV[at + 13] + 0
      merge(state, cumulative, acked, sent, ARGV[at + 9], ARGV[at + 10], ARGV[at + 11])
    end
    if not state.peeks then
      local burst = ARGV[at + 5]
      if burst ~= values[10] and burst ~= '0' and not change_burst(state, burst + 0, values[10]) then
        state.problem = key .. ' holds something that is no burst'
        return
      end
    end
    if state.wants then
      if values[7] and not read_reservations(state, values[7]) then
        state.problem = key .. ' holds something that is no reservation'
      else
        weigh_gcra(state, ARGV[at + 5] + 0, ARGV[at + 6] + 0)
      end
    end
  end

  function write_gcra(state, amount)
    if amount > 0 then
      if is_after(now_s, now_ns, state.tat_s, state.tat_ns) then
        begin(state, now_s, now_ns)
      end
      local length_s, length_ns = charge(amount, state.interval)
      state.tat_s, state.tat_ns = plus(state.tat_s, state.tat_ns, length_s, length_ns)
      state.component, state.changed = min(state.component + amount, COUNT_MAX), true
    end
    local idle_from_ms = max(state.tat_s * 1000 + ceil(state.tat_ns / 1000000), ceil(now_us / 1000))
    local expires = state.expiry_ms < idle_from_ms + KEPT_MS and not state.peeks
    if state.changed or state.moved or expires then
      local key, component = state.key, format('%d', state.component)
      local tat = format('%d.%09d', state.tat_s, state.tat_ns)
      local since = format('%d.%09d', state.since_s, state.since_ns)
      call('HSET', key, 'tat', tat, 'b', since, owner, component)
      if state.before_changed then
        local before = state.before
        local from, to = format('%d.%09d', before[1], before[2]), format('%d.%09d', before[3], before[4])
        call('HSET', key, 'd', from, 'e', to)
      end
      if state.bursts then
        call('HSET', key, 'u', state.bursts)
      end
      if state.folded then
        call('HSET', key, 'c:folded', format('%d', state.folded))
      end
      if state.moved or expires then
        state.expiry_ms = idle_from_ms + KEPT_MS + KEPT_MORE_MS
        local owners, expiry_ms = format('%d', state.owners), format('%d', state.expiry_ms)
        call('HSET', key, 'i', state.interval.text, 'n', owners, 'x', expiry_ms)
        call('PEXPIRE', key, format('%d', max(state.expiry_ms - now_ms, 1)))
      end
    end
    return state.expiry_ms
  end

  if has_wants then
    -- Step 4: max(tat, now) + units × interval − now ≤ what may be owed.
    local function fits(state, spent, ask)
      if ask > state.reach - spent - state.reserved then
        return false
      end
      local length_s, length_ns = charge(spent + ask + state.reserved, state.interval)
      local end_s, end_ns = plus(state.start_s, state.start_ns, length_s, length_ns)
      local debt_s, debt_ns = minus(end_s, end_ns, now_s, now_ns)
      return not is_after(debt_s, debt_ns, state.reach_s, state.reach_ns)
    end

    -- The most, up to `ahead`, that fits beside what was granted. The quotient is right to within one.
    local function most_that_fits(state, ahead)
      local spent, i = state.spent, state.interval
      if fits(state, spent, ahead) then
        return ahead
      end
      local used_s, used_ns = charge(spent + state.reserved, i)
      local debt_s, debt_ns = minus(state.start_s, state.start_ns, now_s, now_ns)
      local left_ns = (state.reach_s - used_s - debt_s) * SECOND + state.reach_ns - used_ns - debt_ns
      local units = max(min(floor(left_ns / i.length_ns), ahead), 0)
      while units > 0 and not fits(state, spent, units) do
        units = units - 1
      end
      while units < ahead and fits(state, spent, units + 1) do
        units = units + 1
      end
      return units
    end

    -- The same for a lease, which may be large: by halving, so that no rounding makes it long.
    local function left_up_to(state, most)
      local passed, failed = 0, most + 1
      if fits(state, state.spent, most) then
        return most
      end
      while failed - passed > 1 do
        local middle = passed + floor((failed - passed) / 2)
        if fits(state, state.spent, middle) then
          passed = middle
        else
          failed = middle
        end
      end
      return passed
    end

    -- From max(tat, now), up to the burst.
    local function start(state)
      state.start_s, state.start_ns, state.reach = state.tat_s, state.tat_ns, state.burst
      if is_after(now_s, now_ns, state.tat_s, state.tat_ns) then
        state.start_s, state.start_ns = now_s, now_ns
      end
      state.reach_s, state.reach_ns = charge(state.burst, state.interval)
    end

    function weigh_gcra(state, burst, ahead)
      state.burst = burst
      start(state)
      local draws = state.draws and fits(state, 0, 1)
      if draws then
        state.reach = min(burst + ahead, COUNT_MAX)
        state.reach_s, state.reach_ns = charge(state.reach, state.interval)
      end
      grant_asks(state, fits)
      if state.most then
        state.drawn = leased(state, left_up_to(state, min(burst, state.most * state.parts)))
      else
        state.drawn = draws and most_that_fits(state, ahead) or 0
      end
    end

    -- How long until `ask` fits if nobody else comes.
    function gcra_wait(state, ask)
      if ask > state.burst then
        return -1, 0
      end
      start(state)
      local ask_s, ask_ns = charge(ask, state.interval)
      local end_s, end_ns = plus(state.tat_s, state.tat_ns, ask_s, ask_ns)
      local debt_s, debt_ns = minus(end_s, end_ns, now_s, now_ns)
      local wait_s, wait_ns = minus(debt_s, debt_ns, state.reach_s, state.reach_ns)
      if wait_s == 0 and wait_ns == 0 and state.earliest_us and not fits(state, 0, ask) then
        return 0, state.earliest_us * 1000 -- only reservations are in its way
      end
      return wait_s, wait_ns
    end
  end
end

