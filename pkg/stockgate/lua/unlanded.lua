-- unlanded: purchases not known to be in the ledger, those journaled longest ago first.
-- KEYS    as in prelude.lua
-- ARGV    ms before which they were last journaled, number of entries at most
-- returns 'no_gate', or order_sn and entry in turn
-- cost    O(log n + entries)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local out = {}
for _, sn in ipairs(redis.call('ZRANGEBYSCORE', UNLANDED, '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])) do
  out[#out + 1] = sn
  out[#out + 1] = redis.call('HGET', HELD, sn)
end
return out
