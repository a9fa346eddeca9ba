-- unlanded: purchases not known to be in the ledger, oldest journaling first.
-- KEYS    as in prelude.lua
-- ARGV    bounds [from, before) of their last journaling in ms, maximum number of entries
-- returns 'no_gate', or for each purchase: order_sn, entry, ms of the last journaling
-- A member of the index without such an entry, which only damage leaves, is removed and not returned.
-- cost    O(log n + entries)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local found = redis.call('ZRANGEBYSCORE', UNLANDED, ARGV[1], '(' .. ARGV[2], 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local out = {}
for i = 1, #found, 2 do
  local stored = redis.call('HGET', HELD, found[i])
  if stored and string.sub(stored, 1, 2) == 'q|' then
    out[#out + 1] = found[i]
    out[#out + 1] = stored
    out[#out + 1] = found[i + 1]
  else
    redis.call('ZREM', UNLANDED, found[i])
  end
end
return out
