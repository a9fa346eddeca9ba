-- read: returns journal entries to a relay, first those that were read too long ago and not acked, then new ones.
-- KEYS    as in prelude.lua
-- ARGV    consumer, number of entries at most, ms after which an entry may be claimed
-- returns alternating ids and contents of the entries
-- Needs no gate: journaled entries can be published without one.
-- cost    O(entries)
if redis.call('EXISTS', JOURNAL) == 0 then return {} end
local consumer, max, idle = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local out = {}

local function append(entries)
  for _, e in ipairs(entries) do
    if e and e[2] then
      out[#out + 1] = e[1]
      out[#out + 1] = e[2][2]
    end
  end
end

local claimed = redis.pcall('XAUTOCLAIM', JOURNAL, GROUP, consumer, idle, '0-0', 'COUNT', int(max))
if claimed.err then
  if not string.find(claimed.err, 'NOGROUP', 1, true) then return claimed end
  redis.call('XGROUP', 'CREATE', JOURNAL, GROUP, '0')
else
  append(claimed[2])
end
local wanted = max - #out / 2
if wanted > 0 then
  local read = redis.call('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', int(wanted), 'STREAMS', JOURNAL, '>')
  if read then append(read[1][2]) end
end
return out
