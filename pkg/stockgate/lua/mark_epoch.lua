-- mark_epoch: compares the epoch of the gate with that of inventory's database.
-- KEYS    as in prelude.lua
-- ARGV    epoch; 'adopt' to give it to a gate without an epoch, or 'import' to refuse new purchases in a gate of another
--         epoch, or without one, until renew_epoch
-- returns 'no_gate', or the epoch of the gate ('' for none) and '1' if it refuses new purchases, else '0'
-- Everything but reserve works on while the gate refuses purchases. Repairs and corrections that were decided before
-- fail: the gate gets another build token.
-- cost    O(1)
local gate = redis.call('HMGET', GATE, 'epoch', 'importing', 'life')
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local epoch, importing = gate[1] or '', gate[2] and '1' or '0'
if ARGV[2] == 'adopt' and epoch == '' and importing == '0' then
  run_at_full_memory()
  redis.call('HSET', GATE, 'epoch', ARGV[1])
  epoch = ARGV[1]
elseif ARGV[2] == 'import' and epoch ~= ARGV[1] and importing == '0' then
  run_at_full_memory()
  redis.call('HSET', GATE, 'importing', '1', 'life', (gate[3] or '') .. 'i')
  importing = '1'
end
return { epoch, importing }
