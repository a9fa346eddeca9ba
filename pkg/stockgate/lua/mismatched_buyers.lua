-- mismatched_buyers: checks one page of the buyers' records against the entries.
-- KEYS    as in prelude.lua
-- ARGV    cursor ('0' at first), number of records
-- returns 'no_gate', or the next cursor ('0' at the end), then the users whose record lists a purchase that is not
--         theirs, counts other units than those of its list, or is malformed
-- cost    O(purchases of the buyers of the page)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local page = redis.call('HSCAN', BUYERS, ARGV[1], 'COUNT', ARGV[2])

local function matches(user, record)
  local units, held, ended_sns = string.match(record, '^(%-?%d+)|([^|]*)|([^|]*)$')
  if not units then return false end
  local n, seen = 0, {}
  for sn in string.gmatch(held, '[^,]+') do
    local e = parse(redis.call('HGET', HELD, sn) or '')
    if seen[sn] or not holds(e) or e.user ~= user then return false end
    seen[sn] = true
    n = n + units_of(e.lines)
  end
  for sn in string.gmatch(ended_sns, '[^,]+') do
    local e = parse(redis.call('HGET', HELD, sn) or '')
    if not ended(e) or e.user ~= user then return false end
  end
  return n == tonumber(units)
end

local out = { page[1] }
for i = 1, #page[2], 2 do
  if not matches(page[2][i], page[2][i + 1]) then out[#out + 1] = page[2][i] end
end
return out
