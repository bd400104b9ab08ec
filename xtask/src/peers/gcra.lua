-- GCRA on a plain redis-server, as people write it who have no module: a peer, not a part of Tidegate.
-- KEYS[1]: the key, whose value is the theoretical arrival time in µs since 1970
-- ARGV: burst, count, period in seconds, cost
-- Returns what CL.THROTTLE does: denied (0, 1), limit, remaining, retry after in seconds or -1, reset in seconds
local burst = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = ARGV[3] * 1000000 / ARGV[2]
local tolerance = interval * burst
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local next_arrival = arrival + interval * ARGV[4]
if next_arrival - tolerance > now then
  local remaining = math.floor((tolerance - (arrival - now)) / interval)
  local retry_after = math.ceil((next_arrival - tolerance - now) / 1000000)
  return {1, burst, remaining, retry_after, math.ceil((arrival - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', next_arrival), 'PX', math.ceil((next_arrival - now) / 1000))
local remaining = math.floor((tolerance - (next_arrival - now)) / interval)
return {0, burst, remaining, -1, math.ceil((next_arrival - now) / 1000000)}
