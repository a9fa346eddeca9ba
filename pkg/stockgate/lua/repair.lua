-- repair: sets entries to the state of the ledger, each only if it still is as it was read.
-- KEYS    as in prelude.lua
-- ARGV    build token of the gate; then for each purchase: order_sn, entry as it was read ('' if there was none), stage
--         ('-' removes the entry and restores nothing), user, lines, reason, deadline or ''
-- returns 'no_gate', 'superseded' when the gate is of another build, or for each purchase '1' if it was changed,
--         else '0'
-- cost    O(purchases)
local life = redis.call('HGET', GATE, 'life')
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
if (life or '') ~= ARGV[1] then return 'superseded' end
run_at_full_memory()
local now = now_ms()
local out = {}
read_entries(every(7, 2))
for i = 2, #ARGV, 7 do
  local sn, seen, stage, user, lines, reason, expires = unpack(ARGV, i, i + 6)
  local stored = stored_entry(sn) or ''
  out[#out + 1] = '0'
  if stored == seen then
    local old = parse(stored)
    if rank(old) == 0 then old = nil end -- no entry, or one that cannot be parsed: its units are unknown
    if stage == '-' then
      touch(sn)
      store_entry(sn, false)
    else
      local new = old and copy(old) or { reserved = '', journal = '', trace = '' }
      new.stage, new.user, new.lines, new.reason, new.expires = stage, user, lines, reason, expires
      new.ended = RANK[stage] == 5 and int(now) or ''
      change(sn, old, new)
    end
    if stage == 'q' then redis.call('ZADD', UNLANDED, int(now), sn) else redis.call('ZREM', UNLANDED, sn) end
    if stage == '-' or RANK[stage] ~= 5 then redis.call('ZREM', ENDED, sn) end
    out[#out] = '1'
  end
end
flush()
expire(now, true)
return out
