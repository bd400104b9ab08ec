-- "I am alive on this shard": compares what the shard holds with what it once told the node, and says which
-- incarnation of its data this is. crates/origin/src/store/record.rs computes the same.
--
-- KEYS   record   string "1:<incarnation, 16 hex digits>:<recovering since in µs, 0: it doesn't>:<run id>"
--        members  hash: of each node "<number of its last pulse>:<incarnation it confirmed>:<alive until µs>"
-- ARGV   node (16 hex digits), the incarnation that begins if data is gone, number of this pulse, highest number that
--        was acknowledged (0: none), the incarnation that the node knows ("": none), the one that it confirmed ("":
--        none), alive for in µs, "leaves" or "stays", "adopts" a missing record or counts it a "loss"
-- reply  seconds and microseconds of TIME, incarnation, "whole" or "recovering", live nodes that hadn't confirmed when
--        the recovery ended by its deadline, keys that the server has evicted since it was started, its maxmemory-policy
--        (-1 and "" where this pulse doesn't look); or what is wrong with the keys
--
-- The incarnations are compared and stored as text. A record of another format is left alone.

local MIN_US, MAX_US, KEPT_US = 1900000, 30000000, 3600000000
local PRUNED_EVERY = 64 -- pulses
local LOOKED_EVERY = 16 -- pulses: at the server's memory

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now_us = seconds * 1000000 + micros
local node, number, acked, known = ARGV[1], ARGV[3], tonumber(ARGV[4]), ARGV[5]

-- Which server process this is: a replica that was promoted, or a server that was restarted, is another one. Servers that
-- don't tell are recognised by what they know.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then
  return { seconds, micros, KEYS[1] .. ': ' .. stored.err }
end
local incarnation, since, written_by
if stored then
  incarnation, since, written_by = string.match(stored, '^1:(%x+):(%d+):(%x*)$')
  if not incarnation then
    return { seconds, micros, KEYS[1] .. ' holds a record of another format' }
  end
end
local member = redis.pcall('HGET', KEYS[2], node)
if type(member) == 'table' then
  return { seconds, micros, KEYS[2] .. ': ' .. member.err }
end
local last = member and tonumber(string.match(member, '^(%d+):'))
-- A node that knows an earlier incarnation has missed a loss that others noticed.
local is_same = not incarnation or incarnation == known
if acked > 0 and is_same and (not last or last < acked) then
  incarnation, stored = nil, stored or ''
elseif written_by and written_by ~= run then
  incarnation = nil
end
local written
if not incarnation then
  if stored or ARGV[9] ~= 'adopts' then
    incarnation, since = ARGV[2], string.format('%.0f', now_us)
  else
    incarnation, since = known ~= '' and known or ARGV[2], '0'
  end
  written = true
end

if ARGV[8] == 'leaves' then
  redis.call('HDEL', KEYS[2], node)
else
  local until_us = string.format('%.0f', now_us + tonumber(ARGV[7]))
  redis.call('HSET', KEYS[2], node, number .. ':' .. ARGV[6] .. ':' .. until_us)
end

local unconfirmed = 0
if since ~= '0' or tonumber(number) % PRUNED_EVERY == 0 then
  local members, waited_for = redis.call('HGETALL', KEYS[2]), 0
  for n = 1, #members, 2 do
    local confirmed, until_us = string.match(members[n + 1], '^%d+:(%x*):(%d+)$')
    until_us = tonumber(until_us) or 0
    if until_us + KEPT_US <= now_us then
      redis.call('HDEL', KEYS[2], members[n])
    elseif until_us > now_us and confirmed ~= incarnation then
      waited_for = waited_for + 1
    end
  end
  local age_us = now_us - tonumber(since)
  if since ~= '0' and (age_us >= MAX_US or age_us >= MIN_US and waited_for == 0) then
    since, unconfirmed, written = '0', waited_for, true
  end
end
if written then
  redis.call('SET', KEYS[1], '1:' .. incarnation .. ':' .. since .. ':' .. run)
end

local evicted, policy = -1, ''
if tonumber(number) % LOOKED_EVERY == 1 then
  local stats, memory = redis.pcall('INFO', 'stats'), redis.pcall('INFO', 'memory')
  if type(stats) == 'string' and type(memory) == 'string' then
    evicted = tonumber(string.match(stats, 'evicted_keys:(%d+)')) or -1
    policy = string.match(memory, 'maxmemory_policy:([%w-]+)') or ''
  end
end
return { seconds, micros, incarnation, since == '0' and 'whole' or 'recovering', unconfirmed, evicted, policy }
