-- read: returns journal entries to a relay, first those that were read too long ago and not acked, then new ones.
-- KEYS    as in prelude.lua
-- ARGV    consumer, number of purchases at most, ms after which an entry may be claimed
-- returns '1' if more entries wait than were returned, else '0'; then alternating ids and contents of the entries
-- Needs no gate: journaled entries can be published without one. An entry with more purchases than allowed is returned
-- if it is the first.
-- cost    O(purchases)
if redis.call('XLEN', JOURNAL) == 0 then return { '0' } end
local consumer, max, idle = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local MAX_GROUP = 128 -- purchases of one entry, as Reserve allows

-- Only while entries with several purchases may be in the journal does their size matter.
local joined = (tonumber(redis.call('HGET', JOURNALED, 'joined') or 0) or 0) > 0
local out, purchases = { '0' }, 0

local function size(entry)
  local _, newlines = string.gsub(entry[2][2], '\n', '')
  return newlines + 1
end

local function append(entries)
  for _, e in ipairs(entries) do
    if e and e[2] then
      out[#out + 1] = e[1]
      out[#out + 1] = e[2][2]
      purchases = purchases + (joined and size(e) or 1)
    end
  end
end

-- page returns how many more entries fit, whatever their size.
local function page()
  if not joined then return max - purchases end
  return (purchases == 0 or purchases + MAX_GROUP <= max) and 1 or 0
end

local cursor = '0-0'
repeat
  local claimed = redis.pcall('XAUTOCLAIM', JOURNAL, GROUP, consumer, idle, cursor, 'COUNT', int(page()))
  if claimed.err then
    if not string.find(claimed.err, 'NOGROUP', 1, true) then return claimed end
    redis.call('XGROUP', 'CREATE', JOURNAL, GROUP, '0')
    cursor = '0-0'
  else
    cursor = claimed[1]
    append(claimed[2])
  end
until cursor == '0-0' or page() == 0

local function read(n)
  local reply = redis.call('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', int(n), 'STREAMS', JOURNAL, '>')
  local entries = reply and reply[1][2] or {}
  append(entries)
  return entries
end

local more = page() == 0
if not more then
  local last = read(page())
  more = not joined and page() == 0
  -- The size of the next entry decides whether it still fits. The read before it has found the place in the stream.
  while joined and #last > 0 do
    local waits = redis.call('XRANGE', JOURNAL, '(' .. last[1][1], '+', 'COUNT', '1')[1]
    if not waits then break end
    more = purchases + size(waits) > max
    if more then break end
    last = read(1)
  end
end
out[1] = more and '1' or '0'
return out
