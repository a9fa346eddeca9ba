-- tally: ends a watch. The counters, and the entries that changed since it was set, as they are at this one moment: together
-- with all others, as they were read since, they are all entries of this moment.
-- KEYS    as in prelude.lua
-- ARGV    token
-- returns 'no_gate', 'superseded' when the watch is over (another one was set, it took too long, or too many changed), or the
--         number of values that follow of the gate hash, its fields and values in turn, then order_sn and entry ('' when there
--         is none) in turn
-- cost    O(SKUs + entries that changed), at most 2000 of these
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local token, deadline = string.match(redis.call('HGET', GATE, 'watch') or '', '^(.*)|(%d+)$')
if token ~= ARGV[1] then return 'superseded' end
local touched = redis.call('SMEMBERS', TOUCHED)
unwatch()
if now_ms() >= tonumber(deadline) then return 'superseded' end
local gate = redis.call('HGETALL', GATE)
local out = { int(#gate) }
for _, v in ipairs(gate) do out[#out + 1] = v end
for _, sn in ipairs(touched) do
  out[#out + 1] = sn
  out[#out + 1] = redis.call('HGET', HELD, sn) or ''
end
return out
