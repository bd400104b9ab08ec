-- Tells all nodes which slices the region holds: they hear of it with their next reports.
--
-- KEYS   news     hash: s stamp, b bytes
-- ARGV   stamp, the news as bytes
-- reply  1, or a string that says what is wrong with the key

local KEPT_MS = '604800000' -- 7 days: while nobody reaches the world store, what was last said is the best guess

local stamp = redis.pcall('HGET', KEYS[1], 's')
if type(stamp) == 'table' then
  return KEYS[1] .. ': ' .. stamp.err
end
-- A slower worker may come after a faster one.
if not stamp or not tonumber(stamp) or tonumber(stamp) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 's', ARGV[1], 'b', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], KEPT_MS)
end
return 1
