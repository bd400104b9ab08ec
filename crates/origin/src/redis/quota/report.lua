-- A node says what was asked for of keys that are shared by quotas, and hears which slices the region holds.
--
-- KEYS   reports  hash: of each node, "<µs of TIME at which it said it>:<bytes>"
--        news     hash: s stamp, b bytes: what the world worker told last
-- ARGV   node (16 hex digits), its report as bytes ("" when it leaves), the stamp of the news that it goes by
-- reply  seconds and microseconds of TIME, and the news as bytes ("" when there is nothing later); or what is wrong
--        with the keys

local KEPT_MS = '86400000' -- 1 day: who lives is told by the times

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local stamp = redis.pcall('HGET', KEYS[2], 's')
if type(stamp) == 'table' then
  return { seconds, micros, KEYS[2] .. ': ' .. stamp.err, 0 }
end
local kept
if ARGV[2] == '' then
  kept = redis.pcall('HDEL', KEYS[1], ARGV[1])
else
  local said = string.format('%.0f:', seconds * 1000000 + micros) .. ARGV[2]
  kept = redis.pcall('HSET', KEYS[1], ARGV[1], said)
end
if type(kept) == 'table' then
  return { seconds, micros, KEYS[1] .. ': ' .. kept.err, 0 }
end
redis.call('PEXPIRE', KEYS[1], KEPT_MS)
if stamp and tonumber(stamp) and tonumber(stamp) > tonumber(ARGV[3]) then
  return { seconds, micros, redis.call('HGET', KEYS[2], 'b') or '' }
end
return { seconds, micros, '' }
