-- Tells cells of the world: the region's own row there, and the other regions' sum. Both only ever raise; nobody
-- becomes an owner by it, and no view any fresher (INV-5). A key that was reset elsewhere is from then on here too.
--
-- KEYS   per cell the cell and its key's epoch, as in sync.lua, all in one slot; a cell that nobody counts in yet
--        is made
-- ARGV   the node's now in ms; per cell the own row, the other regions' sum, when nobody needs the cell any more in ms,
--        its epoch
-- reply  per cell what is said to be published of it from now on, or a string that says what is wrong with the cell

local COUNT_MAX = 9007199254740992 -- 2^53: the last integer that a double holds without gaps
local max, format = math.max, string.format

local now_ms = tonumber(ARGV[1])

-- How long something stays that expires then by the node's clock: this server's may be another.
local function left(expiry_ms)
  return format('%.0f', max(expiry_ms - now_ms, 1))
end

local replies = {}
for n = 1, #KEYS / 2 do
  local key, epoch_key, at = KEYS[2 * n - 1], KEYS[2 * n], 4 * n - 2
  local own, others, expiry_ms = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local epoch, stored_epoch, stored_ms = tonumber(ARGV[at + 3]), 0, 0
  local cell, problem = redis.pcall('HMGET', key, 'f', 'w', 'p', 'x'), nil
  if cell.err then
    problem = key .. ': ' .. cell.err
  else
    for field = 1, 4 do
      local number = cell[field] and tonumber(string.match(cell[field], '^%d+$')) or (not cell[field] and 0)
      if not number or number > COUNT_MAX then
        problem = key .. ' holds something that is no count'
      end
      cell[field] = number
    end
  end
  if epoch > 0 and not problem then
    local stored = redis.pcall('GET', epoch_key)
    if type(stored) == 'table' then
      problem = epoch_key .. ': ' .. stored.err
    elseif stored then
      local told, told_ms = string.match(stored, '^(%d+):(%d+)$')
      stored_epoch, stored_ms = tonumber(told), tonumber(told_ms)
      if not stored_epoch or stored_epoch > 65535 or stored_ms > COUNT_MAX then
        problem = epoch_key .. ' holds something that is no epoch'
      end
    end
  end
  if not problem and (epoch > stored_epoch or (epoch == stored_epoch and epoch > 0 and expiry_ms > stored_ms)) then
    local expiry = max(expiry_ms, stored_ms)
    redis.call('SET', epoch_key, format('%.0f:%.0f', epoch, expiry), 'PX', left(expiry))
  end
  if not problem then
    local raises = own > cell[1] or others > cell[2] or own > cell[3]
    if raises or (cell[4] > 0 and expiry_ms > cell[4]) then
      local expiry = max(expiry_ms, cell[4])
      redis.call(
        'HSET', key, 'f', format('%.0f', max(own, cell[1])), 'w', format('%.0f', max(others, cell[2])),
        'p', format('%.0f', max(own, cell[3])), 'x', format('%.0f', expiry)
      )
      redis.call('PEXPIRE', key, left(expiry))
    end
  end
  replies[n] = problem or max(own, cell[3])
end
return replies
