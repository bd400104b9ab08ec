-- Which nodes a shard remembers: those that sent it a pulse within the last hour, see pulse.lua.
--
-- KEYS   members  hash: of each node "<number of its last pulse>:<incarnation it confirmed>:<alive until µs>"
-- reply  how many of them are alive, then each (16 hex digits); or what is wrong with the key

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local members = redis.pcall('HGETALL', KEYS[1])
if members.err then
  return KEYS[1] .. ': ' .. members.err
end
local reply = { 0 }
for n = 1, #members, 2 do
  local until_us = tonumber(string.match(members[n + 1], ':(%d+)$')) or 0
  reply[1], reply[#reply + 1] = reply[1] + (until_us > now_us and 1 or 0), members[n]
end
return reply
