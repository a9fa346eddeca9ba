-- collect_changes: ends the change tracking. Returns the counters, and the entries that changed since track_changes, as
-- they are at this moment. Together with the other entries, as the caller has read them since, they are a snapshot.
-- KEYS    as in prelude.lua
-- ARGV    token
-- returns 'no_gate', 'superseded' when the tracking ended early (another caller started one, it took too long, or too
--         many entries changed), or the values of counters(), then alternating order_sns and entries ('' if removed)
-- cost    O(SKUs + entries that changed), at most 2000 of these
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local token, deadline = string.match(redis.call('HGET', GATE, 'watch') or '', '^(.*)|(%d+)$')
if token ~= ARGV[1] then return 'superseded' end
local touched = redis.call('SMEMBERS', TOUCHED)
stop_tracking()
if now_ms() >= tonumber(deadline) then return 'superseded' end
local out = counters()
for _, sn in ipairs(touched) do
  out[#out + 1] = sn
  out[#out + 1] = redis.call('HGET', HELD, sn) or ''
end
return out
