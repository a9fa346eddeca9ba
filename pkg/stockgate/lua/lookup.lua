-- lookup: the entries of the given order_sns.
-- KEYS    as in prelude.lua
-- ARGV    order_sns, at least one
-- returns 'no_gate', or alternating order_sns and entries of those that are known
-- cost    O(order_sns)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local out = {}
for i, stored in ipairs(redis.call('HMGET', HELD, unpack(ARGV))) do
  if stored then
    out[#out + 1] = ARGV[i]
    out[#out + 1] = stored
  end
end
return out
