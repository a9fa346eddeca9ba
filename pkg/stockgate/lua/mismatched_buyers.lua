-- buyers: one page of the buyers' records, and which of them do not fit the entries.
-- KEYS    as in prelude.lua
-- ARGV    cursor ('0' at first), number of records wanted
-- returns 'no_gate', or the next cursor ('0' at the end), then the users whose record lists what is not theirs, counts
--         other pieces than those of its list, or cannot be read
-- cost    O(purchases of the buyers of the page)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local page = redis.call('HSCAN', BUYERS, ARGV[1], 'COUNT', ARGV[2])

local function fits(user, record)
  local pieces, held, gone = string.match(record, '^(%-?%d+)|([^|]*)|([^|]*)$')
  if not pieces then return false end
  local n, seen = 0, {}
  for sn in string.gmatch(held, '[^,]+') do
    local e = parse(redis.call('HGET', HELD, sn) or '')
    if seen[sn] or not holds(e) or e.user ~= user then return false end
    seen[sn] = true
    n = n + pieces_of(e.lines)
  end
  for sn in string.gmatch(gone, '[^,]+') do
    local e = parse(redis.call('HGET', HELD, sn) or '')
    if not ended(e) or e.user ~= user then return false end
  end
  return n == tonumber(pieces)
end

local out = { page[1] }
for i = 1, #page[2], 2 do
  if not fits(page[2][i], page[2][i + 1]) then out[#out + 1] = page[2][i] end
end
return out
