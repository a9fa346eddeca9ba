-- adjustments: one page of the adjustments that the gate has.
-- KEYS    as in prelude.lua
-- ARGV    cursor ('0' at first), number of adjustments
-- returns 'no_gate', or the next cursor ('0' at the end), then alternating ids and stored values, see adjust.lua
-- cost    O(adjustments of the page)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local page = redis.call('HSCAN', ADJUSTED, ARGV[1], 'COUNT', ARGV[2])
local out = { page[1] }
for _, v in ipairs(page[2]) do out[#out + 1] = v end
return out
