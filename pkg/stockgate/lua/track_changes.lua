-- watch: has the entries noted that change from now on, for one who is about to read all of them. Ends that of another.
-- KEYS    as in prelude.lua
-- ARGV    token, ms after which nothing is noted any more
-- returns 'ok', or 'no_gate'
-- cost    O(1)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
unwatch()
redis.call('HSET', GATE, 'watch', ARGV[1] .. '|' .. int(now_ms() + tonumber(ARGV[2])))
return 'ok'
