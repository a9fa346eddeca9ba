-- audit: configuration and counters of the gate.
-- KEYS    as in prelude.lua
-- ARGV    none
-- returns 'no_gate', or number of purchases in the journal, number of unlanded entries, number of ended entries, number
--         of entries, then the values of counters()
-- cost    O(SKUs)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local out = counters()
table.insert(out, 1, int(redis.call('HLEN', HELD)))
table.insert(out, 1, int(redis.call('ZCARD', ENDED)))
table.insert(out, 1, int(redis.call('ZCARD', UNLANDED)))
table.insert(out, 1, int(journal_length()))
return out
