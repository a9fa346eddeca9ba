-- KEYS: the slots of one key, a set of holders by expiry. ARGV: holder, limit, lifetime in ms. Returns 1 if the holder
-- got a slot, else 0 without writing. Cost: O(log slots).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf') >= tonumber(ARGV[2]) then return {0} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1}
