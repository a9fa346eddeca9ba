-- purchases: the order_sns of one buyer.
-- KEYS    as in prelude.lua
-- ARGV    user
-- returns 'no_gate', or order_sns: those that hold units, then those that ended recently
-- cost    O(purchases of the buyer)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local b = parse_buyer(redis.call('HGET', BUYERS, ARGV[1]))
local out = {}
for sn in string.gmatch(b.held .. ',' .. b.ended, '%d+') do out[#out + 1] = sn end
return out
