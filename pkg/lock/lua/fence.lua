-- Gives the holder of a lock its fencing number.
--
-- KEYS[1]  the lock
-- KEYS[2]  its last fencing number
-- ARGV[1]  the holder's value
-- Returns  the number, as a string: larger than all given before; '0' when the lock is not this holder's (any more)
-- Cost     O(1)
--
-- It counts up by one, but never stays behind the time in microseconds, so that it goes on rising after Redis lost it.
-- That also lets an idle number be forgotten: a day after the clock has passed it.
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
