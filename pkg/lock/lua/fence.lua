-- Returns a new fencing number to the holder of a lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  its last fencing number
-- ARGV[1]  the holder's value
-- Returns  the number, as a string: larger than all earlier ones; '0' if this holder does not have the lock
-- Cost     O(1)
--
-- The number is the last one plus one, but at least the time in microseconds, so that it keeps rising after Redis lost it.
-- For the same reason an unused number may expire: a day after the clock has passed it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return '0'
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
local fence = math.max(last + 1, now)
local keep = math.ceil((fence - now) / 1000) + 86400000
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text, 'PX', string.format('%.0f', keep))
return text
