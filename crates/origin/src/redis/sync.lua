-- One exchange of a node with its region: publish, read, grant. Windows and GCRA alike, many keys a call.
--
-- docs/design.md explains the protocol. crates/origin/src/store.rs computes the same in process, and a property
-- test compares the two. Must never write anything of a key that holds what doesn't belong there, never
-- leave a key without an expiry, and never let a number pass 2^53: numbers are doubles here.
--
-- One script in four files: this one, sync/window.lua, sync/gcra.lua and sync/exchange.lua. A function costs
-- a fifth of a microsecond each time the script runs, called or not: so those that few calls need are made
-- only where the call has use for them, and the rest are few.
--
-- KEYS   first the epoch of every sync, in order; then, in order, of every window its current and (if named)
--        its previous cell, of every GCRA its state. All are in one slot, none is given twice.
--   epoch   string  "<epoch>:<expiry ms>"; there is none before the first reset
--   cell    hash    c:<node> component of an owner | c:folded sum of the components of owners that were folded, see
--                   fold.lua | s the sum of all c: | f floor | w world | p published to it
--                   n owners | x expiry ms | r reservations, each "<id>:<amount>:<expiry µs>;"
--   state   hash    c:<node> cumulative cost of an owner | c:folded as above | tat, b instants: arrival time, start of the busy
--                   period | d, e the same of the one before it: its start and its end | i interval that they
--                   were written with | u the largest burst that the debt may be of, ":" and when a lowered one was
--                   last forgiven | n, x, r as above
-- ARGV   "c:<node>", the node's now (instant), "each" or "together", number of syncs, what is among them:
--        "w" windows, "g" GCRA, "a" asks, draws or settled reservations; then per sync
--        kind "w" or "g", epoch, settled ids "id,id", asks "1,5", extras "d" draw, "l<most>:<parts>;" lease and
--        "r<id>" reserve, in this order, or "p" peek: the node becomes no owner by this; and
--   w       limit, component, claim, expiry ms, previous component ("" when there is none), its claim, its
--           expiry ms, end of the cell in µs ("" when the previous doesn't fade), period in µs, regions that
--           share the world credit that asks keep to (1: none is looked at), and of either component how much of
--           it the origin confirmed, or may have counted
--   g       burst, units of 10 ms, cumulative, acked, oldest, tat, b (instants), interval, how much of the cumulative
--           the origin may have counted
-- reply  seconds and microseconds of TIME, and per sync a string that says what is wrong with the key, or
--   w       epoch, component, total, world, published, owners, previous component (-1: none), total, world,
--           published, drawn, retry after in µs (-1: none), granted "101", component before (-1: no owner)
--   g       epoch, component, owners, tat s, tat ns, b s, b ns, drawn, retry after s (-1: none), ns, granted,
--           component before (-1: no owner)
--
-- An instant is "<seconds>.<9 digits of nanoseconds>", an interval "<s>:<ns>:<p>:<d>": s, ns and p/d ns.

local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber
local call, find, match, format = redis.call, string.find, string.match, string.format
local min, max, floor = math.min, math.max, math.floor

local COUNT_MAX = 9007199254740992 -- 2^53: the last integer that a double holds without gaps; "%d" writes all of them
local RESERVED_US = 250000

local owner, syncs, features = ARGV[1], tonumber(ARGV[4]), ARGV[5]
local has_windows, has_gcra, has_wants = find(features, 'w'), find(features, 'g'), find(features, 'a')

-- The node's now is the region's time: nodes follow the clock of one server. This server's own clock is for reservations
-- only, which other nodes read.
local time = call('TIME')
local now_s, now_ns = string.sub(ARGV[2], 1, -11) + 0, string.sub(ARGV[2], -9) + 0
local now_us = now_s * 1000000 + floor(now_ns / 1000)
local now_ms = floor(now_us / 1000)

local replies, answered = { time[1] + 0, time[2] + 0 }, 0

-- First asks of windows that nobody has counted in: most of what a node asks. The rest of the script would say the
-- same of them, at three times the cost. (Nothing is unpublished there: the world credit has room.)
if has_wants and has_windows and (syncs == 1 or ARGV[3] == 'each') then
  local all_are_new, at, next_key = nil, 6, syncs + 1
  for n = 1, syncs do
    local is_window, amount = ARGV[at] == 'w', ARGV[at + 3]
    local previous = is_window and ARGV[at + 9] or ''
    local key, last = KEYS[next_key], previous == '' and next_key or next_key + 1
    if
      is_window and ARGV[at + 1] == '0' and ARGV[at + 2] == '' and ARGV[at + 4] == ''
      and amount ~= '' and not find(amount, '%D') and amount + 0 <= ARGV[at + 5] + 0
      and ARGV[at + 6] == '0' and ARGV[at + 7] == '0'
      and (previous == '' or previous == '0' and ARGV[at + 10] == '0')
    then
      if all_are_new == nil then
        all_are_new = call('EXISTS', unpack(KEYS)) == 0
      end
      if all_are_new or syncs > 1 and call('EXISTS', KEYS[n], key, KEYS[last]) == 0 then
        local expiry_ms = ARGV[at + 8]
        call('HSET', key, 's', amount, 'f', amount, 'n', '1', 'x', expiry_ms, owner, amount)
        call('PEXPIRE', key, format('%d', max(expiry_ms - now_ms, 1)))
        amount = amount + 0
        replies[n + 2] = { 0, amount, amount, 0, 0, 1, previous == '' and -1 or 0, 0, 0, 0, 0, -1, '1', -1 }
        answered = answered + 1
      end
    end
    at, next_key = at + (is_window and 17 or 14), last + 1
  end
  if answered == syncs then
    return replies
  end
end

local present_us = time[1] * 1000000 + time[2]

local scaled
if has_wants or has_gcra then
  local fmod = math.fmod
  -- floor(number × part / whole) and the remainder, exactly, for part ≤ whole < 2^45: where the product
  -- would pass 2^53, by long division, 7 bits of the number at a time.
  function scaled(number, part, whole)
    local product = number * part
    if product < COUNT_MAX then
      local rest = fmod(product, whole)
      return (product - rest) / whole, rest
    end
    local quotient, rest, unit = 0, 0, 562949953421312 -- 2^49
    while unit >= 1 do
      local digit = floor(number / unit)
      number = number - digit * unit
      local dividend = rest * 128 + digit * part
      rest = fmod(dividend, whole)
      quotient = quotient * 128 + (dividend - rest) / whole
      unit = unit / 128
    end
    return quotient, rest
  end
end

local read_reservations, write_reservations, grant_asks, leased, cancel
if has_wants then
  -- What others hold back, into `state`; the settled, the expired and the one that is replaced are dropped.
  -- False when it is something else.
  function read_reservations(state, text)
    local kept, length, reserved, earliest_us = '', 0, 0, nil
    for id, amount, expiry_us in string.gmatch(text, '(%x+):(%d+):(%d+);') do
      length = length + #id + #amount + #expiry_us + 3
      local units, left_us = tonumber(amount), tonumber(expiry_us) - present_us
      if units > COUNT_MAX then
        return false
      end
      -- One that ends later than it can was made before the store's clock was set back.
      local is_live = left_us > 0 and left_us <= RESERVED_US
      if is_live and id ~= state.reserve and not find(state.settled, id, 1, true) then
        kept = kept .. id .. ':' .. amount .. ':' .. expiry_us .. ';'
        reserved = min(reserved + units, COUNT_MAX)
        earliest_us = min(earliest_us or left_us, left_us)
      end
    end
    state.reservations, state.reserved, state.earliest_us = kept, reserved, earliest_us
    state.is_settled = kept ~= text
    return length == #text
  end

  function write_reservations(state)
    if state.reserve and state.spent > 0 then
      local held = format('%s:%d:%d;', state.reserve, state.spent, present_us + RESERVED_US)
      call('HSET', state.key, 'r', state.reservations .. held)
    elseif state.is_settled and state.reservations == '' then
      call('HDEL', state.key, 'r')
    elseif state.is_settled then
      call('HSET', state.key, 'r', state.reservations)
    end
  end

  -- Grants the asks that `fits` finds room for, in order.
  function grant_asks(state, fits)
    local granted, spent, asked = '', 0, 0
    for text in string.gmatch(state.asks, '%d+') do
      local ask = tonumber(text)
      asked = min(asked + ask, COUNT_MAX)
      if fits(state, spent, ask) then
        spent, granted = spent + ask, granted .. '1'
      else
        granted, state.refused = granted .. '0', state.refused or ask
      end
    end
    state.granted, state.spent, state.asked = granted, spent, asked
  end

  -- What is drawn ahead for a hot key, where so much is left: what it wished for, and at most one part.
  function leased(state, left)
    left = max(left, 0)
    return min(state.most, (left - math.fmod(left, state.parts)) / state.parts)
  end

  -- Nothing is granted after all: what waits can only pass as a whole.
  function cancel(state)
    state.granted = string.rep('0', #state.granted)
    state.spent, state.drawn, state.refused = 0, 0, state.asks ~= '' and state.asked or nil
  end
end

