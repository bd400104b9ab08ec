-- Tells all nodes how the world stands: they hear of it with their next heartbeats.
--
-- KEYS   world    string "<version>:<regions>:<policy>"
-- ARGV   the same, and its version
-- reply  1, or a string that says what is wrong with the key

local KEPT_MS = '604800000' -- 7 days: while no worker reaches the world store, what it last said is the best guess

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then
  return KEYS[1] .. ': ' .. stored.err
end
-- An older worker may be slower than the next.
local version = stored and tonumber(string.match(stored, '^(%d+):')) or 0
if tonumber(ARGV[2]) >= version then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', KEPT_MS)
end
return 1
