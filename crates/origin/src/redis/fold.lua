-- One step of folding: what owners that are gone counted in a cell or a bucket becomes one field, so that the hash of a
-- long window doesn't grow with every node that ever ran. crates/origin/src/store/fold.rs computes the same.
--
-- The sum stays as it is. An owner that comes back has its component taken out again: read_cell and read_gcra in sync.
--
-- KEYS   hash, a cell or a state of sync.lua: c:<node> components | c:folded sum of the folded ones | n owners
-- ARGV   cursor ("0" at first), then the nodes that stay (16 hex digits each)
-- reply  next cursor ("0" at the end), how many owners were folded, how many are left; or what is wrong with the key
--
-- A step looks at about FIELDS fields; a hash that is small, and so kept as one list, it looks through as a whole.

local COUNT_MAX = 9007199254740992 -- 2^53
local FIELDS = '128'
local key, stays = KEYS[1], {}
for n = 2, #ARGV do
  stays[ARGV[n]] = true
end

local page = redis.pcall('HSCAN', key, ARGV[1], 'COUNT', FIELDS)
if page.err then
  return key .. ': ' .. page.err
end
local function count(text)
  local number = not text and 0 or text ~= '' and not string.find(text, '%D') and text + 0
  return number and number <= COUNT_MAX and number or nil
end
local folded, owners = count(redis.call('HGET', key, 'c:folded')), count(redis.call('HGET', key, 'n'))
if not folded or not owners then
  return key .. ' holds something that is no count'
end
local fields, gone = page[2], {}
for n = 1, #fields, 2 do
  local node = string.match(fields[n], '^c:(%x+)$')
  if node and not stays[node] then
    local component = count(fields[n + 1])
    if not component then
      return key .. ' holds something that is no count'
    end
    folded, gone[#gone + 1] = math.min(folded + component, COUNT_MAX), fields[n]
  end
end
if #gone > 0 then
  owners = math.max(owners - redis.call('HDEL', key, unpack(gone)), 0)
  redis.call('HSET', key, 'c:folded', string.format('%.0f', folded), 'n', string.format('%.0f', owners))
end
return { page[1], #gone, owners }
