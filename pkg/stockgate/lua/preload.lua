-- preload: builds a gate in several calls. Until the last one the gate is absent for all other scripts.
-- KEYS    as in prelude.lua
-- ARGV    step, token of this build, then by step
--         begin     no further arguments: removes leftovers of an earlier gate, except its journal, sale and counts
--         put       number of the step, alternating order_sns and entries: a later entry replaces an earlier one
--         adjusted  number of the step, ids of adjustments
--         commit    number of the step, state, starts, ends, limit, version, reorders, room, captcha, number of purchases that
--                   ended before those that were put, epoch, '1' if an import is to follow, else '', and for each SKU: SKU, left,
--                   held, sold, total
-- returns 'ok'; 'live' when the gate exists already; 'superseded' when another build began after this one, or Redis
--         lost a part of this one; of commit also 'differs', SKU, held and sold units of the entries, separated by
--         spaces, when these are not as expected: nothing was changed, and the build goes on
-- The steps after begin are numbered from 1. A repeated or late call changes nothing. A commit does not use up its
-- number: if its outcome is unknown, the next step has the same one, and only the first of both takes effect.
-- cost    O(fields); commit O(SKUs)
local step, token, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local life = redis.call('HGET', GATE, 'life')
if life == token then return 'ok' end -- committed before, and the reply was lost
if life then return 'live' end

local BUILD_TTL = 600000 -- of an abandoned build's token; the next build removes what it has written

if step == 'begin' then
  if redis.call('GET', BUILD) ~= token then
    for _, key in ipairs({ BUYERS, HELD, UNLANDED, ENDED, ADJUSTED, TOUCHED, BUILDING }) do
      redis.call('UNLINK', key)
    end
    redis.call('PERSIST', JOURNAL)
    redis.call('PERSIST', JOURNALED)
    redis.call('PERSIST', SALE)
    redis.call('PERSIST', COUNTS)
    redis.call('SET', BUILD, token, 'PX', BUILD_TTL)
    redis.call('HSET', BUILDING, 'step', '0')
  end
  return 'ok'
end
if redis.call('GET', BUILD) ~= token then return 'superseded' end
redis.call('PEXPIRE', BUILD, BUILD_TTL)
local last = tonumber(redis.call('HGET', BUILDING, 'step') or -1)

if step ~= 'commit' then
  if number <= last then return 'ok' end
  if number ~= last + 1 then return 'superseded' end
  local gate = GATE
  GATE = BUILDING -- the functions of the prelude count there
  if step == 'put' then
    local sns, users, parsed = every(2, 4), {}, {}
    read_entries(sns)
    for i, sn in ipairs(sns) do
      parsed[i] = parse(ARGV[3 + 2 * i])
      users[i] = parsed[i].user
    end
    read_buyers(users)
    for i, sn in ipairs(sns) do
      local stored = stored_entry(sn)
      if stored ~= ARGV[3 + 2 * i] then
        change(sn, stored and parse(stored) or nil, parsed[i])
        if parsed[i].stage == 'q' then redis.call('ZADD', UNLANDED, int(now_ms()), sn) end
      end
    end
    flush()
  else
    for i = 4, #ARGV do redis.call('HSET', ADJUSTED, ARGV[i], 'm') end
  end
  redis.call('HSET', BUILDING, 'step', ARGV[3])
  GATE = gate
  return 'ok'
end

if number ~= last + 1 then return 'superseded' end
local counted, known, first = {}, {}, 15
local all = redis.call('HGETALL', BUILDING)
for i = 1, #all, 2 do counted[all[i]] = all[i + 1] end
local function counter(name, sku) return tonumber(counted[name .. sku] or 0) end
local function differs(sku)
  return 'differs ' .. sku .. ' ' .. int(counter('h:', sku)) .. ' ' .. int(counter('p:', sku))
end
for i = first, #ARGV, 5 do
  local sku = ARGV[i]
  known[sku] = true
  if counter('h:', sku) ~= tonumber(ARGV[i + 2]) or counter('p:', sku) ~= tonumber(ARGV[i + 3]) then
    return differs(sku)
  end
end
for field in pairs(counted) do
  local sku = string.match(field, '^%a:(%d+)$')
  if sku and not known[sku] then return differs(sku) end
end

redis.call('HSET', BUILDING, 'life', token, 'state', ARGV[4], 'starts', ARGV[5], 'ends', ARGV[6], 'limit', ARGV[7],
  'version', ARGV[8], 'reorders', ARGV[9], 'room', ARGV[10], 'captcha', ARGV[11], 'trimmed', ARGV[12], 'held',
  counted.held or '0')
if ARGV[13] ~= '' then redis.call('HSET', BUILDING, 'epoch', ARGV[13]) end
if ARGV[14] ~= '' then redis.call('HSET', BUILDING, 'importing', ARGV[14]) end
for i = first, #ARGV, 5 do
  local sku = ARGV[i]
  redis.call('HSET', BUILDING, 's:' .. sku, ARGV[i + 1], 'h:' .. sku, ARGV[i + 2], 'p:' .. sku, ARGV[i + 3],
    't:' .. sku, ARGV[i + 4], 'u:' .. sku, counted['u:' .. sku] or '0')
end
redis.call('HDEL', BUILDING, 'step')
redis.call('RENAME', BUILDING, GATE)
redis.call('DEL', BUILD)
expire(now_ms(), true)
return 'ok'
