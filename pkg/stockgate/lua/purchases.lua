-- purchases: the order_sns of one buyer, and what is left of the allowance.
-- KEYS    as in prelude.lua
-- ARGV    user
-- returns 'no_gate', or: number of orders that may still be cancelled or expire before the allowance is over, '' for
--         any; ms until which it is over, or ''; order_sns that hold units; order_sns that ended recently
-- cost    O(purchases of the buyer)
local gate = redis.call('HMGET', GATE, 'state', 'reorders')
if not gate[1] then return 'no_gate' end
local reorders = tonumber(gate[2] or 0) or 0
local b = parse_buyer(redis.call('HGET', BUYERS, ARGV[1]))
local _, barred, lost = history(b, reorders)
local out = { reorders > 0 and int(math.max(0, reorders - lost)) or '', now_ms() < barred and int(barred) or '' }
for sn in string.gmatch(b.held .. ',' .. b.ended, '%d+') do out[#out + 1] = sn end
return out
