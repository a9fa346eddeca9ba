-- correct: adds corrections to counters, once.
-- KEYS    as in prelude.lua
-- ARGV    build token of the gate, number of its corrections so far; then alternating fields and numbers to add
-- returns 'ok', 'no_gate', or 'superseded' when the gate is of another build or was corrected meanwhile
-- The error of a counter is the same before and after every other script, so scripts that run in between do not
-- matter. A late or repeated attempt finds another number of corrections.
-- cost    O(fields)
local gate = redis.call('HMGET', GATE, 'life', 'repairs')
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
if (gate[1] or '') ~= ARGV[1] or (gate[2] or '0') ~= ARGV[2] then return 'superseded' end
run_at_full_memory()
for i = 3, #ARGV, 2 do redis.call('HINCRBY', GATE, ARGV[i], ARGV[i + 1]) end
redis.call('HINCRBY', GATE, 'repairs', '1')
expire(now_ms(), true)
return 'ok'
