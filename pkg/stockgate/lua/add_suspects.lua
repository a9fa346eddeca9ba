-- add_suspects: adds refused requests by address and by user to the suspects of an activity, once.
-- KEYS    as in prelude.lua, then for addresses and for users a zset key -> total and a hash key -> counts, and a
--         string with the number of the source's latest call, see suspects.go
-- ARGV    number of this call, number of addresses, then for each address and for each user: key, early, rate limited,
--         failed challenges, voided paths, error
-- returns 'ok', or 'no_gate'
-- A source's calls count once and in order: a call with a number that is not higher than its last one is a repetition.
-- Space-Saving (Metwally et al. 2005): a new key replaces the one with the least total once there are MAX, and starts
-- from that total, which is its error.
-- cost    O(keys log MAX)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local MAX, TTL = 500, 604800000 -- 7 days
local base = 13
local by = KEYS[base + 5]
if (tonumber(redis.call('GET', by) or 0) or 0) >= tonumber(ARGV[1]) then return 'ok' end
redis.call('SET', by, ARGV[1], 'PX', 960000)

local function add(totals, counts, from)
  local key, given = ARGV[from], {}
  local sum = 0
  for i = 1, 5 do
    given[i] = tonumber(ARGV[from + i])
    sum = sum + given[i]
  end
  local stored = redis.call('HGET', counts, key)
  if stored then
    local i = 0
    for n in string.gmatch(stored, '%d+') do
      i = i + 1
      if given[i] then given[i] = given[i] + tonumber(n) end
    end
  elseif redis.call('ZCARD', totals) >= MAX then
    local least = redis.call('ZPOPMIN', totals)
    redis.call('HDEL', counts, least[1])
    given[5] = given[5] + tonumber(least[2])
    sum = sum + tonumber(least[2])
  end
  for i = 1, 5 do given[i] = int(given[i]) end
  redis.call('ZINCRBY', totals, int(sum), key)
  redis.call('HSET', counts, key, table.concat(given, ','))
end

local addresses = tonumber(ARGV[2])
local n = (#ARGV - 2) / 6
for i = 1, n do
  local kind = i <= addresses and 1 or 3
  add(KEYS[base + kind], KEYS[base + kind + 1], 3 + 6 * (i - 1))
end
for i = 1, 4 do redis.call('PEXPIRE', KEYS[base + i], TTL) end
return 'ok'
