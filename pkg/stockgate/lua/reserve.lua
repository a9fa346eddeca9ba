-- reserve: decides a group of purchases, each by itself and in their order, then journals and takes what was accepted.
-- KEYS    as in prelude.lua
-- ARGV    length from which on the journal is full; then for each purchase: order_sn, user, lines, trace
-- returns 'no_gate', or for each purchase one string 'outcome;payload':
--         known;entry  conflict  paused  ended  not_started;starts  limit_reached;order_sns  unknown_sku
--         sold_out;until when unpaid pieces may return, or ''  journal_full  accepted;entry
-- cost    O(purchases): two reads and at most one XADD per purchase; everything else once per group
local gate = redis.call('HMGET', GATE, 'state', 'starts', 'ends', 'limit')
if not gate[1] then return 'no_gate' end
local state, starts, ends, limit = gate[1], tonumber(gate[2]), tonumber(gate[3]), tonumber(gate[4])
local now = now_ms()
local room = tonumber(ARGV[1]) - redis.call('XLEN', JOURNAL)

-- What the group has changed so far; it is written at the end.
local accepted = {}  -- in order: sn, entry
local entries = {}   -- order_sn -> entry, or its stored form
local buyers = {}    -- user -> record, of those asked for
local left = {}      -- SKU -> pieces left, false when unknown

local function left_of(sku)
  if left[sku] == nil then
    local stored = redis.call('HGET', GATE, 's:' .. sku)
    left[sku] = stored and tonumber(stored) or false
  end
  return left[sku]
end

-- may_return is until when unpaid pieces of the SKU may come back: 0 when there are none.
local function may_return(sku)
  local g = redis.call('HMGET', GATE, 'h:' .. sku, 'x:' .. sku)
  if (tonumber(g[1] or 0) or 0) <= 0 then return 0 end
  local latest = tonumber(g[2] or 0) or 0
  if latest <= now or latest > ends then return ends end
  return latest
end

local function decide(sn, user, lines, trace)
  local known = entries[sn] or redis.call('HGET', HELD, sn)
  if known then
    local e = parse(known)
    if e.user ~= user or e.lines ~= lines then return 'conflict' end
    return 'known;' .. known
  end
  if state == 'paused' then return 'paused' end
  if state ~= 'open' or now >= ends then return 'ended' end
  if now < starts then return 'not_started;' .. int(starts) end

  local buyer = buyers[user]
  if not buyer then
    buyer = parse_buyer(redis.call('HGET', BUYERS, user))
    buyers[user] = buyer
  end
  local pieces = pieces_of(lines)
  if buyer.pieces + pieces > limit then return 'limit_reached;' .. buyer.held end

  local short, back = false, nil
  for sku, qty in each_line(lines) do
    local have = left_of(sku)
    if not have then return 'unknown_sku' end
    if have < tonumber(qty) then
      short = true
      local at = may_return(sku)
      if not back or at < back then back = at end
    end
  end
  if short then return 'sold_out;' .. (back > 0 and int(back) or '') end
  if room <= 0 then return 'journal_full' end

  local e = { stage = 'q', user = user, lines = lines, reason = '', expires = '', ended = '', reserved = int(now),
    journal = '', trace = trace }
  room = room - 1
  buyer.pieces = buyer.pieces + pieces
  buyer.held = list_add(buyer.held, sn)
  buyer.changed = true
  for sku, qty in each_line(lines) do left[sku] = left[sku] - tonumber(qty) end
  entries[sn] = format(e)
  accepted[#accepted + 1] = { sn = sn, entry = e }
  return 'accepted;' .. entries[sn]
end

local verdicts = {}
for i = 2, #ARGV, 4 do
  verdicts[#verdicts + 1] = decide(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
if #accepted == 0 then return verdicts end

-- The journal first: Lua has no rollback, and a reservation that is journaled but not taken is found by the ledger, while
-- one that is taken but not journaled would hold its pieces for nobody.
local held, unlanded, records = {}, {}, {}
for _, a in ipairs(accepted) do
  a.entry.journal = redis.call('XADD', JOURNAL, '*', 'r', journal_record(a.sn, a.entry))
  weigh(a.entry, 1)
  touch(a.sn)
  held[#held + 1] = a.sn
  held[#held + 1] = format(a.entry)
  unlanded[#unlanded + 1] = a.entry.reserved
  unlanded[#unlanded + 1] = a.sn
end
for user, buyer in pairs(buyers) do
  if buyer.changed then
    records[#records + 1] = user
    records[#records + 1] = format_buyer(buyer)
  end
end
flush()
redis.call('HSET', HELD, unpack(held))
redis.call('HSET', BUYERS, unpack(records))
redis.call('ZADD', UNLANDED, unpack(unlanded))
return verdicts
