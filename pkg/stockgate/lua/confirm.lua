-- confirm: writes, so that a WAIT on the same connection covers everything that was written before, and returns what of
-- the given purchases it covers.
-- KEYS    as in prelude.lua
-- ARGV    order_sns
-- returns 'no_gate', or alternating order_sns and entries of those that are known
-- cost    O(order_sns)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
redis.call('HINCRBY', GATE, 'confirms', '1')
read_entries(ARGV)
local out = {}
for _, sn in ipairs(ARGV) do
  if entries[sn] then
    out[#out + 1] = sn
    out[#out + 1] = entries[sn]
  end
end
return out
