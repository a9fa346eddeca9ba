-- confirm: writes, so that a WAIT on the same connection covers everything that was written before.
-- KEYS    as in prelude.lua
-- returns 'ok', or 'no_gate'
-- cost    O(1)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
redis.call('HINCRBY', GATE, 'confirms', '1')
return 'ok'
