-- Heartbeat of a process. KEYS: the set of processes by expiry, and a hash: the time (at) from which all processes
-- that had lost Redis query it again, and the names of those processes. ARGV: the process, its lifetime in ms (0 = it
-- leaves), for how many ms it could not reach Redis (-1 = it could), how many ms the other processes may need to
-- return. Returns the number of processes, whether this one was known, after how many ms it queries Redis again, and
-- how many other processes could reach Redis meanwhile. Cost: O(processes) after an outage, else O(log processes).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ttl, outage, settle = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
if ttl > 0 then
  redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ttl)
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local at, others = now, 0
if outage >= 0 then
  at = tonumber(redis.call('HGET', KEYS[2], 'at') or nil)
  if not at or at < now - outage or at > now + settle then -- none, or that of an earlier outage
    at = now + settle
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[2], 'at', string.format('%.0f', at))
  end
  redis.call('HSET', KEYS[2], ':' .. ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[2], settle + 10000)
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now - outage + ttl), '+inf')) do
    if redis.call('HEXISTS', KEYS[2], ':' .. who) == 0 then others = others + 1 end
  end
end
return {redis.call('ZCARD', KEYS[1]), known and 1 or 0, math.max(0, at - now), others}
