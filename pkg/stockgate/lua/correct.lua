-- correct: adds to counters what they are off by, once.
-- KEYS    as in prelude.lua
-- ARGV    life of the gate, number of corrections it has had; then fields and what to add in turn
-- returns 'ok', 'no_gate', or 'superseded' when this is another life of the gate or a correction was made meanwhile
-- What a counter is off by is the same before and after every other script, so others do not matter in between; a late or
-- second attempt finds another number of corrections.
-- cost    O(fields)
local gate = redis.call('HMGET', GATE, 'life', 'repairs')
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
if (gate[1] or '') ~= ARGV[1] or (gate[2] or '0') ~= ARGV[2] then return 'superseded' end
for i = 3, #ARGV, 2 do redis.call('HINCRBY', GATE, ARGV[i], ARGV[i + 1]) end
redis.call('HINCRBY', GATE, 'repairs', '1')
expire(now_ms(), true)
return 'ok'
