-- KEYS: the slots of one key. ARGV: lifetime in ms, then holders. Returns 1 for each holder that still had a slot,
-- else 0. Cost: O(holders * log slots).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local out = {}
for i = 2, #ARGV do
  local until_ = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or nil)
  out[i - 1] = 0
  if until_ and until_ > now then
    redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
    out[i - 1] = 1
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return out
