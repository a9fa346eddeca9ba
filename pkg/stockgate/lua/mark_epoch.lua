-- mark_epoch: makes a gate of another epoch, or without one, refuse new purchases until renew_epoch.
-- KEYS    as in prelude.lua
-- ARGV    epoch
-- returns 'no_gate', or 1 if the gate refuses new purchases, else 0
-- Everything but reserve works on while the gate refuses purchases. Repairs and corrections that were decided before
-- fail: the gate gets another build token.
-- cost    O(1)
local gate = redis.call('HMGET', GATE, 'epoch', 'importing', 'life')
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
if gate[2] then return 1 end
if gate[1] == ARGV[1] then return 0 end
run_at_full_memory()
redis.call('HSET', GATE, 'importing', '1', 'life', (gate[3] or '') .. 'i')
return 1
