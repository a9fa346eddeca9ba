-- add_counts: adds the counts of one second of one process to the points and, except accepted, to the totals, once.
-- KEYS    as in prelude.lua, then the points of the minute, see counts.go
-- ARGV    source, second, then alternating counter and number to add
-- returns 'ok', or 'no_gate'
-- A source counts each second once and in order: a call with a second that is not later than its last one in that
-- minute is a repetition.
-- The total of accepted needs no counter: it is the number of entries, see Totals.
-- cost    O(counters)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local points, source, second = KEYS[#KEYS], 'by|' .. ARGV[1], ARGV[2]
if (tonumber(redis.call('HGET', points, source) or 0) or 0) >= tonumber(second) then return 'ok' end
redis.call('HSET', points, source, second)
for i = 3, #ARGV, 2 do
  redis.call('HINCRBY', points, second .. '|' .. ARGV[i], ARGV[i + 1])
  if ARGV[i] ~= 'accepted' then redis.call('HINCRBY', COUNTS, ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', points, 960000)
local ttl = redis.call('PTTL', GATE)
if ttl > 0 then redis.call('PEXPIRE', COUNTS, ttl) end
return 'ok'
