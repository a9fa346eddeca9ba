-- track_changes: starts to record which entries change. Ends the tracking of any other caller.
-- KEYS    as in prelude.lua
-- ARGV    token, ms after which the tracking ends by itself
-- returns 'ok', or 'no_gate'
-- cost    O(1)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
stop_tracking()
redis.call('HSET', GATE, 'watch', ARGV[1] .. '|' .. int(now_ms() + tonumber(ARGV[2])))
return 'ok'
