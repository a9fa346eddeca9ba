-- Advances the high-water mark of a leased worker id.
--
-- KEYS[1]  fs:worker:leases (see acquire.lua)
-- ARGV[1]  owner
-- ARGV[2]  length of a lease, ms
-- ARGV[3]  worker id
-- Returns  {high, now}, ms of Redis TIME as strings; high 0 if this owner does not hold the id.
-- Cost     O(1); once a second per process.
--
-- The mark never falls, even if the clock of Redis is set back.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function text(n) return string.format('%.0f', n) end
local held = redis.call('HGET', KEYS[1], ARGV[3])
if not held then
  return {'0', text(now)}
end
local owner, from, high = string.match(held, '^(%S+) (%d+) (%d+)$')
if owner ~= ARGV[1] then
  return {'0', text(now)}
end
high = math.max(tonumber(high), now + tonumber(ARGV[2]))
redis.call('HDEL', KEYS[1], '') -- so that Redis does not refuse the next command at maxmemory
redis.call('HSET', KEYS[1], ARGV[3], owner .. ' ' .. from .. ' ' .. text(high))
return {text(high), text(now)}
