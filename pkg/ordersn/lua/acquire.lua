-- Leases a worker id.
--
-- KEYS[1]  fs:worker:leases, a hash: one field per worker id that was ever taken = "<owner> <from> <high>": only the
--          owner may issue, and only for from <= ms <= high
-- ARGV[1]  owner: random, one per process and acquisition
-- ARGV[2]  length of a lease, ms
-- ARGV[3]  worker id to begin the search with
-- ARGV[4]  number of worker ids
-- ARGV[5]  the highest ms that was ever confirmed to this process (0: none), in case the clock of Redis was set back
-- ARGV[6]  by how much the clock of this Redis may be behind that of a lost master, ms
-- Returns  {worker, from, high, now}; worker -1 when all are taken. All times are ms of Redis TIME, as strings.
-- Cost     O(worker ids) in the worst case; once per start of a process.
--
-- This Redis may lack an acquisition of the same id, and any renewals, that a lost master or an emptied Redis confirmed.
-- Each of them permits at most the length of a lease after the loss. So the window of every acquisition begins one lease
-- after it. Until then the new owner renews: if this acquisition is lost in turn, a renewal fails before anything was
-- issued. An id that is known here is free one lease after its high-water mark, so that its holder keeps it after a
-- failover that lost some renewals.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease, first, count = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, behind = tonumber(ARGV[5]), tonumber(ARGV[6])
local function text(n) return string.format('%.0f', n) end

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
    from = math.max(now + lease + behind, seen) + 1
    high = now + lease -- below from: only a renewal permits to issue
    redis.call('HDEL', KEYS[1], '') -- so that Redis does not refuse the next command at maxmemory
    redis.call('HSET', KEYS[1], text(worker), ARGV[1] .. ' ' .. text(from) .. ' ' .. text(high))
    return {text(worker), text(from), text(high), text(now)}
  end
end
return {'-1', '0', '0', text(now)}
