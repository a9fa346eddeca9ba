-- survey: entries in their stored form, and whether the buyer's record and the indexes match each of them.
-- KEYS    as in prelude.lua
-- ARGV    'page', cursor ('0' at first), number of entries; or 'some', order_sns
-- returns 'no_gate', or the build token of the gate, the next cursor ('0' at the end), then for each entry: order_sn,
--         entry, '1' if buyer's record and indexes match it, else '0'
-- cost    O(entries of the page)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local found, cursor = {}, '0'
if ARGV[1] == 'page' then
  local page = redis.call('HSCAN', HELD, ARGV[2], 'COUNT', ARGV[3])
  cursor, found = page[1], page[2]
else
  local stored = redis.call('HMGET', HELD, unpack(ARGV, 2))
  for i = 2, #ARGV do
    if stored[i - 1] then
      found[#found + 1] = ARGV[i]
      found[#found + 1] = stored[i - 1]
    end
  end
end

local function matches(sn, e)
  if rank(e) == 0 then return false end
  local _, held = string.match(redis.call('HGET', BUYERS, e.user) or '', '^(%-?%d+)|([^|]*)|([^|]*)$')
  local listed = held ~= nil and string.find(',' .. held .. ',', ',' .. sn .. ',', 1, true) ~= nil
  return listed == holds(e) and (redis.call('ZSCORE', UNLANDED, sn) and true or false) == (e.stage == 'q') and
    (redis.call('ZSCORE', ENDED, sn) and true or false) == ended(e)
end

local out = { redis.call('HGET', GATE, 'life') or '', cursor }
for i = 1, #found, 2 do
  out[#out + 1] = found[i]
  out[#out + 1] = found[i + 1]
  out[#out + 1] = matches(found[i], parse(found[i + 1])) and '1' or '0'
end
return out
