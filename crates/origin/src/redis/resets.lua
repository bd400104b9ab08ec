-- Tells every node which keys were reset lately: one that denies by itself would never ask, and never hear.
--
-- KEYS   resets   sorted set: "<key, 32 hex digits>:<epoch>", scored with the µs of TIME until which it is told
-- ARGV   what was reset just now, in the same form; may be none
-- reply  everything that was reset lately, or a string that says what is wrong with the key

local TOLD_US = 20000000 -- 20 s: fifty heartbeats
local RESETS_MAX = 1000 -- the oldest beyond this are heard of with the keys' next syncs

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_us))
if type(gone) == 'table' then
  return KEYS[1] .. ': ' .. gone.err
end
for _, reset in ipairs(ARGV) do
  redis.call('ZADD', KEYS[1], string.format('%.0f', now_us + TOLD_US), reset)
end
if #ARGV > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -RESETS_MAX - 1)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', TOLD_US / 1000))
end
return redis.call('ZRANGE', KEYS[1], 0, -1)
