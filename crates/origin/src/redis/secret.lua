-- The fleet's secret: reads it, and stores the caller's if there is none.
--
-- KEYS   stored   string: "1:" and the secret in 32 hex digits; never expires
--        marker   string: fingerprint of the secret that nodes use, as their heartbeats gave it
-- ARGV   the caller's secret as it is stored, and its fingerprint (16 hex digits); both "" to read only
-- reply  what is stored and the marker, each "" if there is none; or what is wrong with the keys

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then
  return { KEYS[1] .. ': ' .. stored.err }
end
local marker = redis.pcall('GET', KEYS[2])
if type(marker) == 'table' then
  return { KEYS[2] .. ': ' .. marker.err }
end
-- Nodes that use another secret are there: theirs must not be replaced.
local is_ours = not marker or marker == ARGV[2]
if not stored and ARGV[1] ~= '' and is_ours then
  redis.call('SET', KEYS[1], ARGV[1])
  stored = ARGV[1]
end
return { stored or '', marker or '' }
