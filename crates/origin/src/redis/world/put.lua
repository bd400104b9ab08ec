-- Names cells that the world tier should hear of. Each is in the mailbox once; a full one takes no more.
--
-- KEYS   mail     sorted set: "<key, 32 hex digits>:<epoch, 4>:<sequence, 16>", scored with the µs of TIME
--        letters  hash: the same, and what else the world worker must know, which nobody reads here
-- ARGV   per letter its cell, and the rest
-- reply  how many weren't taken, or a string that says what is wrong with the keys

local MAIL_MAX = 20000 -- nodes name what wasn't taken again with their next look
local KEPT_MS = '86400000' -- 1 day after the last letter

local time = redis.call('TIME')
local now_us = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
local size, refused = redis.pcall('ZCARD', KEYS[1]), 0
if type(size) == 'table' then
  return KEYS[1] .. ': ' .. size.err
end
local letters = redis.pcall('HLEN', KEYS[2])
if type(letters) == 'table' then
  return KEYS[2] .. ': ' .. letters.err
end
for n = 1, #ARGV, 2 do
  if size < MAIL_MAX or redis.call('ZSCORE', KEYS[1], ARGV[n]) then
    size = size + redis.call('ZADD', KEYS[1], 'NX', now_us, ARGV[n])
    redis.call('HSET', KEYS[2], ARGV[n], ARGV[n + 1])
  else
    refused = refused + 1
  end
end
redis.call('PEXPIRE', KEYS[1], KEPT_MS)
redis.call('PEXPIRE', KEYS[2], KEPT_MS)
return refused
