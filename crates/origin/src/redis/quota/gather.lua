-- What the nodes of a region said of quotas lately, for their world worker.
--
-- KEYS   reports  hash: of each node, "<µs of TIME at which it said it>:<bytes>"; forgot: see report.lua
-- ARGV   who said nothing for so many µs is left out and forgotten
-- reply  seconds and microseconds of TIME, µs of TIME at which something was forgotten, or 0, then node and bytes in
--        turn; or what is wrong with the key, in the place of the third

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local since_us = seconds * 1000000 + micros - tonumber(ARGV[1])
local said = redis.pcall('HGETALL', KEYS[1])
if said.err then
  return { seconds, micros, KEYS[1] .. ': ' .. said.err }
end
local reply = { seconds, micros, 0 }
for index = 1, #said, 2 do
  local colon = string.find(said[index + 1], ':', 1, true)
  local at_us = colon and tonumber(string.sub(said[index + 1], 1, colon - 1))
  if said[index] == 'forgot' then
    reply[3] = tonumber(said[index + 1]) or 0
  elseif at_us and at_us >= since_us then
    reply[#reply + 1] = said[index]
    reply[#reply + 1] = string.sub(said[index + 1], colon + 1)
  else
    redis.call('HDEL', KEYS[1], said[index])
  end
end
return reply
