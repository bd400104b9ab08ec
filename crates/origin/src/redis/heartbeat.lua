-- "I am alive", and how many others are. Refuses a node that hashes its keys with another secret.
--
-- KEYS   alive    sorted set: nodes, scored with the µs of TIME until which each counts as alive
--        secret   string: fingerprint of the fleet's secret, as the first node gave it
--        heard    hash: of each node, the version of the world's regions that it uses
--        world    string: how the world stands, as the world worker told
--        format   string: the format that nodes keep here, "2"; earlier releases, which keep no records, have none
--        proven   string: how often this store, or the one before it, had accepted a node with this fingerprint; missing for
--                 never; "1", as earlier releases write it, for very often
-- ARGV   node (16 hex digits), fingerprint (16 hex digits), alive for in µs, "leaves" or "stays", the version of
--        the world's regions that it uses (0: none), and how the store answered it before: "new", "refused", or how often
--        it accepted the node, from 2 on
-- reply  seconds and microseconds of TIME, then "alive", the number of live nodes, the world ("": none) and 1 if only nodes
--        of an earlier release were here before; or "other secret" and its fingerprint; or "no secret", to a node that was
--        refused before; or what is wrong with the keys

-- A fleet that was silent for so long may come back with another secret: its counts are gone anyway.
local SECRET_MS = '604800000' -- 7 days
-- A secret that was accepted for a minute, at a heartbeat every 400 ms, is never replaced.
local PROVEN_FROM = 150
local ALIVE_MS = 86400000 -- 1 day after the last heartbeat would count; the scores tell who lives

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now_us = seconds * 1000000 + micros
local digits = function(number)
  return string.format('%.0f', number)
end

local secret = redis.pcall('GET', KEYS[2])
if type(secret) == 'table' then
  return { seconds, micros, KEYS[2] .. ': ' .. secret.err }
end
local weight = tonumber(ARGV[6]) or 0
local proven = redis.pcall('GET', KEYS[6])
proven = type(proven) == 'string' and tonumber(proven) or 0
if proven == 1 then
  proven = PROVEN_FROM
end
if secret and secret ~= ARGV[2] and (weight <= proven or proven >= PROVEN_FROM) then
  return { seconds, micros, 'other secret', secret }
end
-- A node that belongs to another fleet doesn't take over a store that lost its data.
if not secret and ARGV[6] == 'refused' then
  return { seconds, micros, 'no secret' }
end
local dead = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', digits(now_us))
if type(dead) == 'table' then
  return { seconds, micros, KEYS[1] .. ': ' .. dead.err }
end
local keeps_no_records = 0
if not redis.pcall('GET', KEYS[5]) then
  keeps_no_records = redis.call('ZCARD', KEYS[1]) > 0 and 1 or 0
end
redis.call('SET', KEYS[5], '2', 'PX', SECRET_MS)
redis.call('SET', KEYS[2], ARGV[2], 'PX', SECRET_MS)
if secret == ARGV[2] then
  weight = math.max(weight, proven)
end
if weight > 0 then
  redis.call('SET', KEYS[6], digits(weight), 'PX', SECRET_MS)
else
  redis.call('DEL', KEYS[6])
end
if ARGV[4] == 'leaves' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], digits(now_us + tonumber(ARGV[3])), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], digits(ALIVE_MS + math.ceil(tonumber(ARGV[3]) / 1000)))
end
if ARGV[4] == 'leaves' then
  redis.pcall('HDEL', KEYS[3], ARGV[1])
elseif ARGV[5] ~= '0' then
  redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[5])
  redis.call('PEXPIRE', KEYS[3], digits(ALIVE_MS))
end
local world = redis.pcall('GET', KEYS[4])
if type(world) == 'table' then
  return { seconds, micros, KEYS[4] .. ': ' .. world.err }
end
return { seconds, micros, 'alive', redis.call('ZCARD', KEYS[1]), world or '', keeps_no_records }
