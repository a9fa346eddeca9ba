-- trim: removes entries that ended more than 24 h ago, and lets the keys of a finished gate expire.
-- KEYS    as in prelude.lua
-- ARGV    maximum number of entries
-- returns the number of entries removed, or 'no_gate'
-- cost    O(entries)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
local now = now_ms()
local removed = trim(now, ARGV[1])
flush()
expire(now, false)
return removed
