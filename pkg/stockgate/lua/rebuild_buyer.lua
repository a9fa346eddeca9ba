-- rebuild_buyer: rebuilds the record of a buyer from the entries that it lists and those named, and puts these into
-- the right index.
-- KEYS    as in prelude.lua
-- ARGV    user, then order_sns
-- returns '1' when something was changed, '0', or 'no_gate'
-- Uses the entries as they are at this moment, so it moves no units.
-- cost    O(purchases of the buyer)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
local user = ARGV[1]
local record = redis.call('HGET', BUYERS, user)
local sns, seen = {}, {}

local function name(sn)
  if not seen[sn] then
    seen[sn] = true
    sns[#sns + 1] = sn
  end
end
for sn in string.gmatch(record or '', '%d+') do name(sn) end
for i = 2, #ARGV do name(ARGV[i]) end
table.sort(sns, function(a, b) -- numerically, which is the order in which they were issued
  if #a ~= #b then return #a < #b end
  return a < b
end)

local changed = false
local b = { units = 0, held = '', ended = '' }
for _, sn in ipairs(sns) do
  local e = parse(redis.call('HGET', HELD, sn) or '')
  local known = rank(e) > 0
  if known and e.user == user then
    if holds(e) then
      b.units = b.units + units_of(e.lines)
      b.held = list_add(b.held, sn)
    else
      b.ended = list_latest(list_add(b.ended, sn), MAX_ENDED)
    end
  end
  if known and e.stage == 'q' then
    if not redis.call('ZSCORE', UNLANDED, sn) then
      redis.call('ZADD', UNLANDED, int(now_ms()), sn)
      changed = true
    end
  elseif redis.call('ZREM', UNLANDED, sn) == 1 then
    changed = true
  end
  if known and ended(e) then
    if not redis.call('ZSCORE', ENDED, sn) then
      redis.call('ZADD', ENDED, tonumber(e.ended) and e.ended or int(now_ms()), sn)
      changed = true
    end
  elseif redis.call('ZREM', ENDED, sn) == 1 then
    changed = true
  end
end

if b.held == '' and b.ended == '' then
  if redis.call('HDEL', BUYERS, user) == 1 then changed = true end
elseif format_buyer(b) ~= record then
  redis.call('HSET', BUYERS, user, format_buyer(b))
  changed = true
end
if changed then expire(now_ms(), true) end -- a key that was created again has no TTL yet
return changed and '1' or '0'
