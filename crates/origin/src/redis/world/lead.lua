-- Who does the region's work in the world tier, and which store this is.
--
-- KEYS   worker   string: the node that does it, for as long as its lease lasts
--        origin   string "<id>:<life>", 16 hex digits each: made once, and again when everything was forgotten
--        alive    sorted set: nodes, scored with the µs of TIME until which each counts as alive
--        heard    hash: of each node, the version of the world's regions that it goes by
-- ARGV   node (16 hex digits), lease in ms ("" gives up), the origin as the node knows it or makes it up ("": it
--        lets others speak first)
-- reply  seconds and microseconds of TIME, 1 if the node leads, the origin ("": nobody has said), the lowest version that a live node
--        goes by; or a string that says what is wrong with the keys

local ORIGIN_MS = '63244800000' -- 732 days: twice the longest window

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local holder, origin = redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2])
if type(holder) == 'table' then
  return KEYS[1] .. ': ' .. holder.err
end
if type(origin) == 'table' then
  return KEYS[2] .. ': ' .. origin.err
end
origin = origin or ARGV[3]
if origin ~= '' then
  redis.call('SET', KEYS[2], origin, 'PX', ORIGIN_MS)
end

local leads = false
if ARGV[2] == '' then
  if holder == ARGV[1] then
    redis.call('DEL', KEYS[1])
  end
elseif origin ~= '' and (not holder or holder == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  leads = true
end

local lowest
if leads then
  local nodes = redis.pcall('ZRANGEBYSCORE', KEYS[3], '(' .. string.format('%.0f', now_us), '+inf')
  if nodes.err then
    return KEYS[3] .. ': ' .. nodes.err
  end
  -- Those that are gone needn't be remembered.
  local kept, heard = {}, redis.pcall('HGETALL', KEYS[4])
  if heard.err then
    return KEYS[4] .. ': ' .. heard.err
  end
  for n = 1, #heard, 2 do
    kept[heard[n]] = tonumber(heard[n + 1]) or 0
  end
  for _, node in ipairs(nodes) do
    lowest = math.min(lowest or kept[node] or 0, kept[node] or 0)
    kept[node] = nil
  end
  for node in pairs(kept) do
    redis.call('HDEL', KEYS[4], node)
  end
end
return { tonumber(time[1]), tonumber(time[2]), leads and 1 or 0, origin, lowest or 0 }
