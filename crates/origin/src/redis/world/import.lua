-- Tells cells of the world: the region's own row there, and the other regions' sum. Both only ever raise; nobody
-- becomes an owner by it, and no view any fresher (INV-5).
--
-- KEYS   cells, as in sync.lua, all in one slot; a cell that nobody counts in yet is made
-- ARGV   per cell the own row, the other regions' sum, when nobody needs the cell any more in ms
-- reply  per cell 1, or a string that says what is wrong with the cell

local COUNT_MAX = 9007199254740992 -- 2^53: the last integer that a double holds without gaps
local max, format = math.max, string.format

local replies = {}
for n, key in ipairs(KEYS) do
  local own, others, expiry_ms = tonumber(ARGV[3 * n - 2]), tonumber(ARGV[3 * n - 1]), tonumber(ARGV[3 * n])
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
  if not problem then
    local raises = own > cell[1] or others > cell[2] or own > cell[3]
    if raises or (cell[4] > 0 and expiry_ms > cell[4]) then
      local expiry = format('%.0f', max(expiry_ms, cell[4]))
      redis.call(
        'HSET', key, 'f', format('%.0f', max(own, cell[1])), 'w', format('%.0f', max(others, cell[2])),
        'p', format('%.0f', max(own, cell[3])), 'x', expiry
      )
      redis.call('PEXPIREAT', key, expiry)
    end
  end
  replies[n] = problem or 1
end
return replies
