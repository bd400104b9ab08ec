-- A node says what was asked for of keys that are shared by quotas, and hears which slices the region holds.
--
-- KEYS   reports  hash: of each node, "<µs of TIME at which it said it>:<bytes>"; forgot: µs of TIME at which it was
--                 noticed that something is missing that was there before, or 0
--        news     hash: s stamp, b bytes: what the world worker told last
-- ARGV   node (16 hex digits), its report as bytes ("" when it leaves), the stamp of the news that it goes by
-- reply  seconds and microseconds of TIME, and the news as bytes ("" when there is nothing later, "-" when the last
--        that are known here are earlier than those that the node goes by); or what is wrong with the keys

local KEPT_MS = '86400000' -- 1 day: who lives is told by the times

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local stamp = redis.pcall('HGET', KEYS[2], 's')
if type(stamp) == 'table' then
  return { seconds, micros, KEYS[2] .. ': ' .. stamp.err, 0 }
end
local told, applied = stamp and tonumber(stamp) or 0, tonumber(ARGV[3])
local kept
if ARGV[2] == '' then
  kept = redis.pcall('HDEL', KEYS[1], ARGV[1])
else
  local now_us = string.format('%.0f', seconds * 1000000 + micros)
  kept = redis.pcall('HSET', KEYS[1], ARGV[1], now_us .. ':' .. ARGV[2])
  if type(kept) == 'number' then
    -- Who goes by news reported before; news are told where somebody did.
    local is_missed = applied > 0 and kept == 1
    local forgot = redis.call('HGET', KEYS[1], 'forgot')
    if applied > told or is_missed or (not forgot and told > 0) then
      redis.call('HSET', KEYS[1], 'forgot', now_us)
    elseif not forgot then
      redis.call('HSET', KEYS[1], 'forgot', '0')
    end
  end
end
if type(kept) == 'table' then
  return { seconds, micros, KEYS[1] .. ': ' .. kept.err, 0 }
end
redis.call('PEXPIRE', KEYS[1], KEPT_MS)
if told > applied then
  return { seconds, micros, redis.call('HGET', KEYS[2], 'b') or '' }
end
return { seconds, micros, told < applied and '-' or '' }
