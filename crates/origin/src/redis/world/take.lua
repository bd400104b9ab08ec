-- Takes the oldest letters out of the mailbox.
--
-- KEYS   mail, letters   as in put.lua
-- ARGV   how many at most
-- reply  per letter its cell, and the rest; or a string that says what is wrong with the keys

local popped = redis.pcall('ZPOPMIN', KEYS[1], ARGV[1])
if popped.err then
  return KEYS[1] .. ': ' .. popped.err
end
local letters = {}
for n = 1, #popped, 2 do
  local rest = redis.pcall('HGET', KEYS[2], popped[n])
  if type(rest) == 'table' then
    return KEYS[2] .. ': ' .. rest.err
  end
  if rest then
    redis.call('HDEL', KEYS[2], popped[n])
    letters[#letters + 1], letters[#letters + 2] = popped[n], rest
  end
end
return letters
