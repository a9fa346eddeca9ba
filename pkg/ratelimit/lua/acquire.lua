-- KEYS: the places of one key, a set of holders by when they expire. ARGV: holder, limit, for how many ms.
-- Answers 1 if the holder has a place, else 0; then nothing is written. Cost: O(log places).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf') >= tonumber(ARGV[2]) then return {0} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1}
