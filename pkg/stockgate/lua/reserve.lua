-- reserve: decides a group of purchases, each by itself and in their order; journals the accepted ones and takes their
-- units.
-- KEYS    as in prelude.lua
-- ARGV    number of purchases from which the journal is full; then for each purchase: order_sn, user, lines, trace,
--         ms at which its path was issued or ''
-- returns 'no_gate', or for each purchase one string 'outcome;payload':
--         known;entry  conflict  paused  ended  not_started;starts  limit_reached;order_sns|ms until which the
--         allowance is over, or ''  path_void: the buyer has reserved since it was issued  unknown_sku
--         sold_out;ms until which unpaid units may return, or ''  journal_full  accepted;ms of the reservation
--         importing: the gate takes no new purchases until its epoch is renewed
-- cost    O(purchases)
local gate = redis.call('HMGET', GATE, 'state', 'starts', 'ends', 'limit', 'importing', 'reorders')
if not gate[1] then return 'no_gate' end
local state, starts, ends, limit = gate[1], tonumber(gate[2]), tonumber(gate[3]), tonumber(gate[4])
local reorders = tonumber(gate[6] or 0) or 0
local now = now_ms()
local reserved = int(now)
local journaled = journal_length()
local room = tonumber(ARGV[1]) - journaled

-- The group's changes are written at the end. Entries and buyers of the whole group are read with one command each.
local accepted = {}  -- order_sn, user, lines, trace of each
local taken = {}     -- parsed line -> units
local left = {}      -- SKU -> units left, false when unknown
read_entries(every(5, 2))
read_buyers(every(5, 3))

local function left_of(sku)
  if left[sku] == nil then
    local stored = redis.call('HGET', GATE, 's:' .. sku)
    left[sku] = stored and tonumber(stored) or false
  end
  return left[sku]
end

-- may_return returns the time until which unpaid units of the SKU may become available again, 0 if there are none.
local function may_return(sku)
  local g = redis.call('HMGET', GATE, 'h:' .. sku, 'x:' .. sku)
  if (tonumber(g[1] or 0) or 0) <= 0 then return 0 end
  local latest = tonumber(g[2] or 0) or 0
  if latest <= now or latest > ends then return ends end
  return latest
end

local function decide(sn, user, lines, trace, issued)
  local known = entries[sn]
  if known then
    local e = parse(known)
    if rank(e) == 0 then return 'known;' .. known end -- its buyer is unknown
    if e.user ~= user or e.lines ~= lines then return 'conflict' end
    return 'known;' .. known
  end
  if gate[5] then return 'importing' end
  if state == 'paused' then return 'paused' end
  if state ~= 'open' or now >= ends then return 'ended' end
  if now < starts then return 'not_started;' .. int(starts) end

  local buyer = buyers[user]
  local wanted = parse_lines(lines)
  if buyer.units + wanted.units > limit then return 'limit_reached;' .. buyer.held .. '|' end
  local latest, barred = history(buyer, reorders)
  if now < barred then return 'limit_reached;' .. buyer.held .. '|' .. int(barred) end
  if issued ~= '' and tonumber(issued) < latest then return 'path_void' end

  local short, back = false, nil
  for _, line in ipairs(wanted) do
    local have = left_of(line.sku)
    if not have then return 'unknown_sku' end
    if have < line.n then
      short = true
      local at = may_return(line.sku)
      if not back or at < back then back = at end
    end
  end
  if short then return 'sold_out;' .. (back > 0 and int(back) or '') end
  if room <= 0 then return 'journal_full' end

  room = room - 1
  entries[sn] = 'q|' .. user .. '|' .. lines .. '||||' .. reserved .. '||' .. trace -- for a duplicate in this group
  change_buyer(user)
  buyer.units = buyer.units + wanted.units
  buyer.held = list_add(buyer.held, sn)
  for _, line in ipairs(wanted) do
    left[line.sku] = left[line.sku] - line.n
    taken[line] = (taken[line] or 0) + line.n
  end
  accepted[#accepted + 1] = { sn, user, lines, trace }
  return 'accepted;' .. reserved
end

local verdicts = {}
for i = 2, #ARGV, 5 do
  verdicts[#verdicts + 1] = decide(unpack(ARGV, i, i + 4))
end
if #accepted == 0 then return verdicts end

-- The journal is written first, because Lua has no rollback, and because Redis refuses the first write at full memory.
-- If the script fails after that, the ledger commits the reservation and settles it here. Units that are taken but not
-- journaled would be held for no purchase.
local unlanded, records, units = {}, {}, {}
for i, a in ipairs(accepted) do
  local sn, user, lines, trace = unpack(a)
  records[i] = journal_record(sn, user, lines, reserved, trace)
  add_units(units, lines)
end
local journal = journal_add(records)
for _, a in ipairs(accepted) do
  local sn, user, lines, trace = unpack(a)
  touch(sn)
  store_entry(sn, 'q|' .. user .. '|' .. lines .. '||||' .. reserved .. '|' .. journal .. '|' .. trace)
  unlanded[#unlanded + 1] = reserved
  unlanded[#unlanded + 1] = sn
end
if journaled == 0 then redis.call('DEL', JOURNALED) end -- the counters of a journal that was lost
count_journaled(units, 1, #accepted - 1)

-- The sums that count_entry() would add for entries of stage q.
for line, n in pairs(taken) do
  count(line.left, -n)
  count(line.held, n)
  count('held', n)
  count(line.unlanded, n)
end
flush()
redis.call('ZADD', UNLANDED, unpack(unlanded))
return verdicts
