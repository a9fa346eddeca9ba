-- backlog: what waits in the journal and what has not landed.
-- KEYS    as in prelude.lua
-- ARGV    none
-- returns 'no_gate', or number of purchases in the journal, ms since the oldest entry of the journal was written (0 if it
--         is empty), number of unlanded entries, ms since the one that was journaled first (0 without one), number of
--         purchases that the gate has had, token of the gate's build
-- cost    O(log of the unlanded entries)
local gate = redis.call('HMGET', GATE, 'state', 'trimmed', 'life')
if not gate[1] then return 'no_gate' end
local oldest = redis.call('XRANGE', JOURNAL, '-', '+', 'COUNT', '1')[1]
local age = oldest and math.max(0, now_ms() - tonumber(string.match(oldest[1], '^%d+'))) or 0
local first = redis.call('ZRANGE', UNLANDED, 0, 0, 'WITHSCORES')[2]
local unlanded = first and math.max(0, now_ms() - tonumber(first)) or 0
local purchases = redis.call('HLEN', HELD) + (tonumber(gate[2] or 0) or 0)
return { int(journal_length()), int(age), int(redis.call('ZCARD', UNLANDED)), int(unlanded), int(purchases),
  gate[3] or '' }
