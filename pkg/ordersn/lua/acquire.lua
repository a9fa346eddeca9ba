-- Leases a worker id.
--
-- KEYS[1]  fs:worker:leases, a hash: born = when this Redis first saw a worker (ms); one field per worker id that was
--          ever taken = "<owner> <from> <high>": only the owner may issue, and only for from <= ms <= high
-- ARGV[1]  owner: random, one per process and acquisition
-- ARGV[2]  length of a lease, ms
-- ARGV[3]  worker id to begin the search with
-- ARGV[4]  number of worker ids
-- ARGV[5]  the highest ms that was ever confirmed to this process (0: none), in case the clock of Redis was set back
-- Returns  {worker, from, high, now}; worker -1 when all are taken. All times are ms of Redis TIME, as strings.
-- Cost     O(worker ids) in the worst case; once per start of a process.
--
-- An id is free again one lease after its high-water mark: a failover may have lost renewals of that age. In a Redis that
-- was empty, no window begins before one lease has passed: the leases in the lost one have ended by then.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease, first, count, seen = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local function text(n) return string.format('%.0f', n) end

local born = tonumber(redis.call('HGET', KEYS[1], 'born') or '')
if not born then
  born = now
  redis.call('HSET', KEYS[1], 'born', text(now))
end
local earliest = math.max(now, born + lease + 1, seen + 1)
for i = 0, count - 1 do
  local worker = (first + i) % count
  local held = redis.call('HGET', KEYS[1], text(worker))
  local owner, from, high
  if held then
    owner, from, high = string.match(held, '^(%S+) (%d+) (%d+)$')
    high = tonumber(high)
  end
  if owner == ARGV[1] then -- the result of an earlier attempt of this call was lost
    return {text(worker), from, text(high), text(now)}
  end
  if not high or high + lease < now then
    from = math.max(earliest, (high or 0) + 1)
    high = now + lease -- may be below from: the renewals raise it in time
    redis.call('HSET', KEYS[1], text(worker), ARGV[1] .. ' ' .. text(from) .. ' ' .. text(high))
    return {text(worker), text(from), text(high), text(now)}
  end
end
return {'-1', '0', '0', text(now)}
