-- Functions and key names that all scripts of a gate share. This file is prepended to each script and changes nothing.
-- Every script receives the keys in this order:
local GATE, BUYERS, HELD, JOURNAL, UNLANDED, ENDED, ADJUSTED, SALE, BUILD, TOUCHED, COUNTS, BUILDING, JOURNALED =
  unpack(KEYS)
--
-- GATE      hash    state, starts, ends, limit, version; reorders = see history();
--                   room = places that the waiting room admits a second, 0 or absent without one;
--                   captcha = kind:difficulty of the challenge, '' or absent without one; life = token of the build
--                   that made it; held = units held in the whole gate; ttl = 1 while the keys expire; repairs = number
--                   of corrections of the counters;
--                   confirms = number of calls of confirm.lua;
--                   watch = token|deadline of the change tracking; trimmed = purchases that ended and are no longer in
--                   HELD; and for each SKU, in units: s: left, h: held,
--                   p: sold, t: total, u: of held, not known to be in the ledger; x: latest pay deadline known;
--                   epoch = epoch of inventory's database that the gate belongs to; importing = 1 while inventory
--                   imports what orders and gate have: see mark_epoch.lua
-- BUYERS    hash    user -> units|order_sns that hold them|recently ended order_sns; comma-separated lists, latest last
-- HELD      hash    order_sn -> entry, see parse()
-- JOURNAL   stream  one field r = purchases of one call of reserve.lua, one on a line, each as
--                   order_sn|user|lines|reserved|trace
-- UNLANDED  zset    order_sn -> ms of its last journaling, exactly the entries of stage q
-- ENDED     zset    order_sn -> ms of its end, exactly the entries of stages x and f
-- ADJUSTED  hash    adjustment id -> see adjust.lua
-- SALE      string  JSON
-- BUILD     string  token of the build in progress
-- TOUCHED   set     order_sns whose entries changed since the change tracking began, see track_changes.lua
-- COUNTS    hash    counter of buyers' requests since the publication -> number, see counts.go
-- BUILDING  hash    the counters of the gate that the build in progress makes; step = number of its last step
-- JOURNALED hash    content of JOURNAL: SKU -> units; joined = number of purchases less number of entries. Absent while
--                   JOURNAL is empty, and like JOURNAL independent of the gate
--
-- Ids are strings throughout. Times are Unix milliseconds and quantities are small integers: both are exact as doubles.

local GROUP = 'relays'
local DAY = 86400000
local MAX_ENDED = 16

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- int formats a number as an integer; tostring would write a large one in scientific notation.
local function int(n) return string.format('%.0f', n) end

-- Stored entries: stage|user|lines|reason|expires|ended|reserved|journal|trace. Stages: q queued, l landed, c created,
-- p paid, x closed, f failed. journal is the id of the purchase's last entry in JOURNAL, which may be acked; empty if
-- there was none.
local ENTRY = '^(%a)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$'

local function parse(stored)
  local stage, user, lines, reason, expires, ended, reserved, journal, trace = string.match(stored, ENTRY)
  return { stage = stage, user = user, lines = lines, reason = reason, expires = expires, ended = ended,
    reserved = reserved, journal = journal, trace = trace }
end

local function format(e)
  return e.stage .. '|' .. e.user .. '|' .. e.lines .. '|' .. e.reason .. '|' .. e.expires .. '|' .. e.ended .. '|' ..
    e.reserved .. '|' .. e.journal .. '|' .. e.trace
end

local function copy(e)
  local c = {}
  for k, v in pairs(e) do c[k] = v end
  return c
end

local RANK = { q = 1, l = 2, c = 3, p = 4, x = 5, f = 5 }

-- An entry that cannot be parsed has rank 0: it neither holds units nor has ended. Scripts leave it unchanged and
-- process the others.
local function rank(e) return e and RANK[e.stage or ''] or 0 end
local function holds(e) return rank(e) >= 1 and rank(e) <= 4 end
local function ended(e) return rank(e) == 5 end

local parsed_lines = {} -- lines as text -> parsed

-- parse_lines returns the parsed lines of an entry: a list with SKU, quantity and counter names of each line, and their
-- sum as units. Most purchases of a sale have the same lines, so each text is parsed once per script call.
local function parse_lines(lines)
  local p = parsed_lines[lines]
  if p then return p end
  p = { units = 0 }
  for sku, qty in string.gmatch(lines, '(%d+):(%d+)') do
    local n = tonumber(qty)
    p[#p + 1] = { sku = sku, n = n, left = 's:' .. sku, held = 'h:' .. sku, sold = 'p:' .. sku, unlanded = 'u:' .. sku }
    p.units = p.units + n
  end
  parsed_lines[lines] = p
  return p
end

local function units_of(lines) return parse_lines(lines).units end

-- run_at_full_memory lets the script write although Redis has reached maxmemory: Redis refuses commands that may need
-- memory only until the script has written something (scriptVerifyOOM in Redis's script.c), and never refuses HDEL. For
-- scripts that free memory or change what exists. A script that takes units must not call it.
local function run_at_full_memory() redis.call('HDEL', GATE, '') end

-- Changes are collected and written once at the end of a script, by flush(), because each redis.call costs more than
-- the command itself. Scripts therefore read and write entries, buyers and counters with the functions below.

-- Counters.
local deltas = {}

local function count(field, n) deltas[field] = (deltas[field] or 0) + n end

-- count_entry adds (sign 1) or subtracts (sign -1) the units of an entry in the counters. An ended entry counts
-- nowhere.
local function count_entry(e, sign)
  if not holds(e) then return end
  for _, line in ipairs(parse_lines(e.lines)) do
    local n = sign * line.n
    count(line.left, -n)
    if e.stage == 'p' then
      count(line.sold, n)
    else
      count(line.held, n)
      count('held', n)
      if e.stage == 'q' then count(line.unlanded, n) end
    end
  end
end

-- Entries with the changes of this script: order_sn -> stored form, or false if there is none.
local entries = {}
local changed_entries, entry_changed = {}, {}
local removed_from_unlanded = {} -- order_sns
local added_to_ended = {}        -- alternating ms and order_sns

-- read_entries reads the entries of several order_sns with one command.
local function read_entries(sns)
  if #sns == 0 then return end
  for i, stored in ipairs(redis.call('HMGET', HELD, unpack(sns))) do entries[sns[i]] = stored end
end

local function stored_entry(sn)
  if entries[sn] == nil then entries[sn] = redis.call('HGET', HELD, sn) end
  return entries[sn]
end

-- store_entry replaces an entry, or removes it (false).
local function store_entry(sn, stored)
  entries[sn] = stored
  if not entry_changed[sn] then
    entry_changed[sn] = true
    changed_entries[#changed_entries + 1] = sn
  end
end

-- Buyers.
local function parse_buyer(stored)
  if not stored then return { units = 0, held = '', ended = '' } end
  local units, held, ended_sns = string.match(stored, '^(%-?%d+)|([^|]*)|([^|]*)$')
  if not units then return { units = 0, held = '', ended = '' } end -- malformed: the ledger enforces the limit as well
  return { units = tonumber(units), held = held, ended = ended_sns }
end

local function format_buyer(b) return int(b.units) .. '|' .. b.held .. '|' .. b.ended end

local function list_add(list, sn)
  if list == '' then return sn end
  return list .. ',' .. sn
end

local function list_remove(list, sn)
  if list == sn then return '' end
  local kept = {}
  for other in string.gmatch(list, '%d+') do
    if other ~= sn then kept[#kept + 1] = other end
  end
  return table.concat(kept, ',')
end

local function list_latest(list, n)
  if #list < 2 * n then return list end -- too short for more than n order_sns
  local all = {}
  for sn in string.gmatch(list, '%d+') do all[#all + 1] = sn end
  if #all <= n then return list end
  return table.concat(all, ',', #all - n + 1)
end

local buyers = {} -- user -> record, with the changes of this script
local changed_buyers = {}

local function read_buyers(users)
  if #users == 0 then return end
  for i, stored in ipairs(redis.call('HMGET', BUYERS, unpack(users))) do buyers[users[i]] = parse_buyer(stored) end
end

local function buyer_of(user)
  if not buyers[user] then buyers[user] = parse_buyer(redis.call('HGET', BUYERS, user)) end
  return buyers[user]
end

-- change_buyer returns the record of a buyer for a change: flush() writes it.
local function change_buyer(user)
  local b = buyer_of(user)
  if not b.changed then
    b.changed = true
    changed_buyers[#changed_buyers + 1] = user
  end
  return b
end

local function list_held(sn, user, lines)
  local b = change_buyer(user)
  b.units = b.units + units_of(lines)
  b.held = list_add(b.held, sn)
end

local function unlist_held(sn, user, lines)
  local b = change_buyer(user)
  b.units = b.units - units_of(lines)
  b.held = list_remove(b.held, sn)
end

local function list_ended(sn, user)
  local b = change_buyer(user)
  b.ended = list_latest(list_add(b.ended, sn), MAX_ENDED)
end

local function list_entry(sn, e)
  if holds(e) then list_held(sn, e.user, e.lines) else list_ended(sn, e.user) end
end

local function unlist_entry(sn, e)
  if holds(e) then return unlist_held(sn, e.user, e.lines) end
  local b = change_buyer(e.user)
  b.ended = list_remove(b.ended, sn)
end

-- BARRED is how long, in ms, a buyer's allowance is over after one order too many was cancelled or expired.
local BARRED = 600000

-- history returns three numbers: the ms of the buyer's latest reservation, 0 if there is none; the ms until which the
-- buyer's allowance is over, 0 if it is not; how many orders were cancelled or expired. The allowance is over if these
-- are more than reorders; 0 means that any number may be. It reads the latest entries that the buyer's record lists: at
-- most MAX_ENDED that hold units, and as many that ended in the last 24 h.
local function history(buyer, reorders)
  if buyer.held == '' and buyer.ended == '' then return 0, 0, 0 end
  local latest, lost, at = 0, 0, 0
  for sn in string.gmatch(list_latest(buyer.held, MAX_ENDED) .. ',' .. buyer.ended, '%d+') do
    local e = parse(stored_entry(sn) or '')
    latest = math.max(latest, tonumber(e.reserved) or 0)
    if e.stage == 'x' and (e.reason == 'cancelled' or e.reason == 'expired') then
      lost = lost + 1
      at = math.max(at, tonumber(e.ended) or 0)
    end
  end
  return latest, reorders > 0 and lost > reorders and at + BARRED or 0, lost
end

-- Change tracking: while a caller reads all entries page by page, scripts record which entries change, at most
-- MAX_TOUCHED. See track_changes.lua and collect_changes.lua.
local MAX_TOUCHED = 2000
local tracking -- nil until it is known

local function stop_tracking()
  redis.call('HDEL', GATE, 'watch')
  redis.call('UNLINK', TOUCHED)
  tracking = false
end

-- touch records that an entry changes, if changes are tracked.
local function touch(sn)
  if tracking == nil then
    local stored = redis.call('HGET', GATE, 'watch')
    tracking = stored and true or false
    if stored and now_ms() >= tonumber(string.match(stored, '|(%d+)$') or 0) then stop_tracking() end
  end
  if tracking and redis.call('SADD', TOUCHED, sn) == 1 and redis.call('SCARD', TOUCHED) > MAX_TOUCHED then
    stop_tracking()
  end
end

local latest = {} -- field x: of GATE -> at: latest known deadline; text: the same as text, set if it must be written
local noted = {}  -- lines and deadline, as text -> true

-- note_deadline raises the latest known pay deadline of each SKU of an entry.
local function note_deadline(lines, expires)
  local key = lines .. '|' .. expires
  if noted[key] then return end
  noted[key] = true
  local at = tonumber(expires)
  for _, line in ipairs(parse_lines(lines)) do
    local field = 'x:' .. line.sku
    local l = latest[field]
    if not l then
      l = { at = tonumber(redis.call('HGET', GATE, field) or 0) or 0 }
      latest[field] = l
    end
    if at > l.at then l.at, l.text = at, expires end
  end
end

local function add_to_ended(sn, at)
  added_to_ended[#added_to_ended + 1] = at
  added_to_ended[#added_to_ended + 1] = sn
end

-- change replaces an entry (old is nil if there was none) and updates counters, buyer and indexes. After a reservation
-- this is the only function that moves units, so only units that were taken are restored, and only once.
local function change(sn, old, new)
  touch(sn)
  if old then count_entry(old, -1) end
  count_entry(new, 1)
  local same_buyer = old and old.user == new.user and old.lines == new.lines and holds(old) == holds(new)
  if not same_buyer then
    if old then unlist_entry(sn, old) end
    list_entry(sn, new)
  end
  if old and old.stage == 'q' and new.stage ~= 'q' then removed_from_unlanded[#removed_from_unlanded + 1] = sn end
  if ended(new) then add_to_ended(sn, new.ended) end
  if new.stage == 'c' and new.expires ~= '' then note_deadline(new.lines, new.expires) end
  store_entry(sn, format(new))
end

-- call_with calls a command unless the list of arguments is empty.
local function call_with(command, key, args)
  if #args > 0 then redis.call(command, key, unpack(args)) end
end

-- flush writes the collected changes.
local function flush()
  for field, n in pairs(deltas) do
    if n ~= 0 then redis.call('HINCRBY', GATE, field, int(n)) end
  end
  for field, l in pairs(latest) do
    if l.text then redis.call('HSET', GATE, field, l.text) end
  end
  local put, deleted = {}, {}
  for _, sn in ipairs(changed_entries) do
    if entries[sn] then
      put[#put + 1] = sn
      put[#put + 1] = entries[sn]
    else
      deleted[#deleted + 1] = sn
    end
  end
  call_with('HSET', HELD, put)
  call_with('HDEL', HELD, deleted)
  put, deleted = {}, {}
  for _, user in ipairs(changed_buyers) do
    local b = buyers[user]
    if b.units == 0 and b.held == '' and b.ended == '' then
      deleted[#deleted + 1] = user
    else
      put[#put + 1] = user
      put[#put + 1] = format_buyer(b)
    end
    b.changed = false
  end
  call_with('HSET', BUYERS, put)
  call_with('HDEL', BUYERS, deleted)
  call_with('ZREM', UNLANDED, removed_from_unlanded)
  call_with('ZADD', ENDED, added_to_ended)
  deltas, latest, noted, changed_entries, entry_changed, changed_buyers = {}, {}, {}, {}, {}, {}
  removed_from_unlanded, added_to_ended = {}, {}
end

-- every returns each step-th element of ARGV, from number first on.
local function every(step, first)
  local out = {}
  for i = first, #ARGV, step do out[#out + 1] = ARGV[i] end
  return out
end

-- journal_length returns the number of purchases in the journal.
local function journal_length()
  local n = redis.call('XLEN', JOURNAL)
  if n == 0 then return 0 end
  return n + math.max(0, tonumber(redis.call('HGET', JOURNALED, 'joined') or 0) or 0)
end

local function journal_record(sn, user, lines, reserved, trace)
  return sn .. '|' .. user .. '|' .. lines .. '|' .. reserved .. '|' .. trace
end

-- journal_add journals purchases with one entry, and returns its id. The caller counts them with count_journaled().
local function journal_add(records) return redis.call('XADD', JOURNAL, '*', 'r', table.concat(records, '\n')) end

-- add_units adds the units of a purchase to sums by SKU.
local function add_units(sums, lines)
  for _, line in ipairs(parse_lines(lines)) do sums[line.sku] = (sums[line.sku] or 0) + line.n end
end

-- count_journaled adds to the counters of the journal's content: units by SKU, with the given sign, and joined.
local function count_journaled(units, sign, joined)
  for sku, n in pairs(units) do redis.call('HINCRBY', JOURNALED, sku, int(sign * n)) end
  if joined ~= 0 then redis.call('HINCRBY', JOURNALED, 'joined', int(sign * joined)) end
end

-- counters returns the length of two lists and then the lists: the units in the journal (alternating SKUs and units), and
-- the gate hash (alternating fields and values).
local function counters()
  local journaled = redis.call('XLEN', JOURNAL) > 0 and redis.call('HGETALL', JOURNALED) or {}
  local gate = redis.call('HGETALL', GATE)
  local out = { int(#journaled), int(#gate) }
  for _, v in ipairs(journaled) do out[#out + 1] = v end
  for _, v in ipairs(gate) do out[#out + 1] = v end
  return out
end

-- expire gives all keys a TTL of 24 h once the activity has ended and no units are held, and removes the TTL when that
-- no longer holds. Called after flush(). changed is whether the script has changed anything: only a change extends a
-- TTL that is already set.
local function expire(now, changed)
  local g = redis.call('HMGET', GATE, 'state', 'ends', 'held', 'ttl')
  local finished = g[1] == 'ended' or now >= tonumber(g[2])
  local idle = finished and (tonumber(g[3] or 0) or 0) <= 0
  if idle and (changed or not g[4]) then
    redis.call('HSET', GATE, 'ttl', '1')
    for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, DAY) end
  elseif g[4] and not idle then
    redis.call('HDEL', GATE, 'ttl')
    for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
  end
end

-- trim removes at most limit entries that ended more than 24 h ago. Called before flush().
local function trim(now, limit)
  local sns = redis.call('ZRANGEBYSCORE', ENDED, '-inf', int(now - DAY), 'LIMIT', 0, limit)
  for _, sn in ipairs(sns) do
    local stored = stored_entry(sn)
    local e = stored and parse(stored)
    if stored then count('trimmed', 1) end
    if rank(e) > 0 then unlist_entry(sn, e) end
    store_entry(sn, false)
  end
  call_with('ZREM', ENDED, sns)
  return #sns
end

-- finish_unpaid ends a purchase that is not paid and whose buyer and lines are those given. It returns false for any
-- other entry. It does the same as change(), but saves parsing the entry: nearly all purchases that end are of this
-- kind.
local function finish_unpaid(sn, stored, stage, user, lines, reason, now)
  local old = string.sub(stored, 1, 1)
  if old ~= 'q' and old ~= 'l' and old ~= 'c' then return false end
  local purchase = '|' .. user .. '|' .. lines .. '|'
  if string.sub(stored, 2, #purchase + 1) ~= purchase then return false end
  local rest = string.match(stored, '^|%d*||(%d*|[^|]*|[^|]*)$', #purchase + 2) -- reserved, journal, trace
  if not rest then return false end
  touch(sn)
  for _, line in ipairs(parse_lines(lines)) do
    count(line.left, line.n)
    count(line.held, -line.n)
    count('held', -line.n)
    if old == 'q' then count(line.unlanded, -line.n) end
  end
  unlist_held(sn, user, lines)
  list_ended(sn, user)
  if old == 'q' then removed_from_unlanded[#removed_from_unlanded + 1] = sn end
  add_to_ended(sn, now)
  store_entry(sn, (old == 'c' and 'x' or stage) .. purchase .. reason .. '||' .. now .. '|' .. rest)
  return true
end

-- finish_other ends any other purchase that may end, and notes the end of one that has no entry. It returns whether it
-- changed something.
local function finish_other(sn, stored, stage, user, lines, reason, now)
  local old = stored and parse(stored) or nil
  local new
  if not old then
    new = { stage = stage, user = user, lines = lines, reason = reason, expires = '', ended = now, reserved = '',
      journal = '', trace = '' }
  elseif holds(old) and (old.stage ~= 'p' or stage == 'x' and reason == 'refunded') then
    new = copy(old)
    new.stage = old.stage == 'c' and 'x' or stage
    new.reason, new.ended, new.expires = reason, now, ''
  else
    return false
  end
  change(sn, old, new)
  return true
end

-- finish implements release and drop. It ends the purchases in ARGV (order_sn, user, lines, reason of each) with the
-- given stage. A paid entry ends only by a release with the reason refunded.
local function finish(stage)
  run_at_full_memory()
  local now = now_ms()
  local ms = int(now)
  local changed = 0
  read_entries(every(4, 1))
  read_buyers(every(4, 2))
  for i = 1, #ARGV, 4 do
    local sn, user, lines, reason = unpack(ARGV, i, i + 3)
    local stored = stored_entry(sn)
    if stored and finish_unpaid(sn, stored, stage, user, lines, reason, ms) or
      finish_other(sn, stored, stage, user, lines, reason, ms) then
      changed = changed + 1
    end
  end
  trim(now, 8)
  flush()
  expire(now, changed > 0)
  return changed
end
