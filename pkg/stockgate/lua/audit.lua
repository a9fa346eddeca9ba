-- audit: configuration and counters of the gate.
-- KEYS    as in prelude.lua
-- ARGV    none
-- returns 'no_gate', or length of the journal, number of unlanded entries, number of entries, then the
--         alternating fields and values of the gate hash
-- cost    O(SKUs)
local out = redis.call('HGETALL', GATE)
if #out == 0 then return 'no_gate' end
table.insert(out, 1, int(redis.call('HLEN', HELD)))
table.insert(out, 1, int(redis.call('ZCARD', UNLANDED)))
table.insert(out, 1, int(redis.call('XLEN', JOURNAL)))
return out
