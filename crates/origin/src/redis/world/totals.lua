-- The region's counts of some cells, and how much of each the world tier has.
--
-- KEYS   cells, as in sync.lua, all in one slot
-- reply  per cell its total and what of it is published; or a string that says what is wrong with the cell

local COUNT_MAX = 9007199254740992 -- 2^53: the last integer that a double holds without gaps

local replies = {}
for n, key in ipairs(KEYS) do
  local cell, problem = redis.pcall('HMGET', key, 's', 'f', 'p'), nil
  if cell.err then
    problem = key .. ': ' .. cell.err
  else
    for field = 1, 3 do
      local number = cell[field] and tonumber(string.match(cell[field], '^%d+$')) or (not cell[field] and 0)
      if not number or number > COUNT_MAX then
        problem = key .. ' holds something that is no count'
      end
      cell[field] = number
    end
  end
  replies[n] = problem or { math.max(cell[1], cell[2]), cell[3] }
end
return replies
