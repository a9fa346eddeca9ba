-- scan: one page of all entries.
-- KEYS    as in prelude.lua
-- ARGV    cursor ('0' at first), number of entries
-- returns 'no_gate', or the next cursor ('0' at the end), then alternating order_sns and entries
-- cost    O(entries of the page)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local page = redis.call('HSCAN', HELD, ARGV[1], 'COUNT', ARGV[2])
local out = { page[1] }
for _, v in ipairs(page[2]) do out[#out + 1] = v end
return out
