-- The log of resets: tells every node which keys were reset since it last asked. A node that denies a key by itself never
-- syncs it, and would learn of its reset by nothing else.
--
-- KEYS   log        sorted set: "<key, 32 hex digits>:<epoch>", scored with the number of the reset
--        head       string "1:<id of the log, 16 hex digits>:<number of the last reset>"
--        announced  sorted set: what earlier releases read, scored with the µs of TIME until which it is announced
-- ARGV   id of the log that the node knows ("": none), the last number that it knows, the id of the log that begins if
--        there is none; then what was reset just now, as in the log; may be none
-- reply  id of the log, number of the last reset, 1 if the node may have missed some that are no longer in the log, then
--        the resets that it doesn't know; or a string that says what is wrong with the keys

local ANNOUNCED_US = 20000000 -- 20 s
local RESETS_MAX = 1000
local KEPT_MS = '2678400000' -- 31 days

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local head = redis.pcall('GET', KEYS[2])
if type(head) == 'table' then
  return KEYS[2] .. ': ' .. head.err
end
local log, number
if head then
  log, number = string.match(head, '^1:(%x+):(%d+)$')
  if not log then
    return KEYS[2] .. ' holds a log of another format'
  end
end
local written = not log
log, number = log or ARGV[3], tonumber(number or '0')
local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now_us))
if type(gone) == 'table' then
  return KEYS[3] .. ': ' .. gone.err
end
for n = 4, #ARGV do
  number, written = number + 1, true
  redis.call('ZADD', KEYS[1], string.format('%.0f', number), ARGV[n])
  redis.call('ZADD', KEYS[3], string.format('%.0f', now_us + ANNOUNCED_US), ARGV[n])
end
if written then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -RESETS_MAX - 1)
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -RESETS_MAX - 1)
  redis.call('SET', KEYS[2], '1:' .. log .. ':' .. string.format('%.0f', number), 'PX', KEPT_MS)
  redis.call('PEXPIRE', KEYS[1], KEPT_MS)
  redis.call('PEXPIRE', KEYS[3], string.format('%.0f', ANNOUNCED_US / 1000))
end
local known = ARGV[1] == log and tonumber(ARGV[2]) or 0
local resets = redis.pcall('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', known), '+inf')
if resets.err then
  return KEYS[1] .. ': ' .. resets.err
end
local missed = ARGV[1] ~= log and 1 or 0
local first = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', known), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if known < number and (not first[2] or tonumber(first[2]) > known + 1) then
  missed = 1
end
local reply = { log, number, missed }
for n = 1, #resets do
  reply[#reply + 1] = resets[n]
end
-- What nodes of an earlier release announced.
local announced = redis.call('ZRANGE', KEYS[3], 0, -1)
for n = 1, #announced do
  reply[#reply + 1] = announced[n]
end
return reply
