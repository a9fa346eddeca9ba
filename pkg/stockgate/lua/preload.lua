-- preload: builds a gate in several calls. Until the last one the gate is absent for all other scripts.
-- KEYS    as in prelude.lua
-- ARGV    step, token of this build, then by step
--         begin     no further arguments: removes leftovers of an earlier gate, except its journal, sale and counts
--         held, buyers, adjusted   alternating fields and values of that hash
--         commit    number of fields of held, buyers and adjusted, state, starts, ends, limit, version, number of
--                   purchases that ended before those in held, epoch, '1' if an import is to follow, else '', and
--                   for each SKU: SKU, left, held, sold, total, unlanded, latest deadline or ''
-- returns 'ok', 'live' when the gate exists already, or 'superseded' when another build began after this one or this
--         one is incomplete. Each step may be repeated.
-- cost    O(fields)
local step, token = ARGV[1], ARGV[2]
local life = redis.call('HGET', GATE, 'life')
if life == token then return 'ok' end -- committed before, and the reply was lost
if life then return 'live' end

local BUILD_TTL = 600000 -- of an abandoned build's token; the next build removes what it has written

if step == 'begin' then
  if redis.call('GET', BUILD) ~= token then
    for _, key in ipairs({ BUYERS, HELD, UNLANDED, ENDED, ADJUSTED, TOUCHED }) do redis.call('UNLINK', key) end
    redis.call('PERSIST', JOURNAL)
    redis.call('PERSIST', SALE)
    redis.call('PERSIST', COUNTS)
    redis.call('SET', BUILD, token, 'PX', BUILD_TTL)
  end
  return 'ok'
end
if redis.call('GET', BUILD) ~= token then return 'superseded' end
redis.call('PEXPIRE', BUILD, BUILD_TTL)

if step ~= 'commit' then
  local into = ({ held = HELD, buyers = BUYERS, adjusted = ADJUSTED })[step]
  redis.call('HSET', into, unpack(ARGV, 3))
  if step == 'held' then
    local now = now_ms()
    for i = 3, #ARGV, 2 do
      local e = parse(ARGV[i + 1])
      if e.stage == 'q' then
        redis.call('ZADD', UNLANDED, int(now), ARGV[i])
      elseif ended(e) then
        redis.call('ZADD', ENDED, e.ended, ARGV[i])
      end
    end
  end
  return 'ok'
end

if redis.call('HLEN', HELD) ~= tonumber(ARGV[3]) or redis.call('HLEN', BUYERS) ~= tonumber(ARGV[4]) or
  redis.call('HLEN', ADJUSTED) ~= tonumber(ARGV[5]) then
  return 'superseded'
end
local held = 0
redis.call('HSET', GATE, 'life', token, 'state', ARGV[6], 'starts', ARGV[7], 'ends', ARGV[8], 'limit', ARGV[9],
  'version', ARGV[10], 'trimmed', ARGV[11])
if ARGV[12] ~= '' then redis.call('HSET', GATE, 'epoch', ARGV[12]) end
if ARGV[13] ~= '' then redis.call('HSET', GATE, 'importing', ARGV[13]) end
for i = 14, #ARGV, 7 do
  local sku = ARGV[i]
  redis.call('HSET', GATE, 's:' .. sku, ARGV[i + 1], 'h:' .. sku, ARGV[i + 2], 'p:' .. sku, ARGV[i + 3], 't:' .. sku,
    ARGV[i + 4], 'u:' .. sku, ARGV[i + 5], 'j:' .. sku, '0')
  if ARGV[i + 6] ~= '' then redis.call('HSET', GATE, 'x:' .. sku, ARGV[i + 6]) end
  held = held + tonumber(ARGV[i + 2])
end
redis.call('HSET', GATE, 'held', int(held))
redis.call('DEL', BUILD)
expire(now_ms(), true)
return 'ok'
