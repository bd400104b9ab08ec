-- Starts a key afresh for every node: raises its epoch, so that all count in new cells from now on.
--
-- KEYS   epoch    string "<epoch>:<expiry ms>"; there is none before the first reset
--        order    string: the last order that was carried out; there is none before the first. Only with an order
-- ARGV   when the cells of the new epoch expire, and the node's now, both in ms; the epoch that the node knows of; may be
--        missing: the order's number ("": none), and then one that isn't above the last changes nothing; may be missing:
--        "done", and then the key was reset before, to the epoch that the node knows of: a store that lost that is told
--        again
-- reply  the epoch that holds now, or a string that says what is wrong with the key

local EPOCH_MAX = 65535
-- 30 days. Who comes by a file of the rules is told of orders for a day; who is sent what changed since it was last
-- there, and was away for longer than this, carries one out once more.
local ORDER_KEPT_MS = 2592000000
local EXPIRY_MAX = 9007199254740992 -- 2^53: the last integer that a double holds without gaps

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then
  return KEYS[1] .. ': ' .. stored.err
end
local epoch, expiry_ms = 0, 0
if stored then
  epoch, expiry_ms = string.match(stored, '^(%d+):(%d+)$')
  epoch, expiry_ms = tonumber(epoch), tonumber(expiry_ms)
  if not epoch or epoch > EPOCH_MAX or expiry_ms > EXPIRY_MAX then
    return KEYS[1] .. ' holds something that is no epoch'
  end
end
local known, order, is_done = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == 'done'
if order then
  local last = redis.pcall('GET', KEYS[2])
  if type(last) == 'table' then
    return KEYS[2] .. ': ' .. last.err
  end
  if last and not tonumber(last) then
    return KEYS[2] .. ' holds something that is no order'
  end
  if last and order <= tonumber(last) and not is_done then
    return epoch
  end
  if not last or order > tonumber(last) then
    redis.call('SET', KEYS[2], ARGV[4], 'PX', ORDER_KEPT_MS)
  end
end
if is_done then
  if known < epoch then
    return epoch
  end
  epoch = known
else
  epoch = math.min(math.max(epoch, known) + 1, EPOCH_MAX)
end
expiry_ms = math.max(expiry_ms, tonumber(ARGV[1]))
-- As long as the node says: this server's clock may be another.
local left_ms = string.format('%.0f', math.max(expiry_ms - tonumber(ARGV[2]), 1))
redis.call('SET', KEYS[1], string.format('%.0f:%.0f', epoch, expiry_ms), 'PX', left_ms)
return epoch
