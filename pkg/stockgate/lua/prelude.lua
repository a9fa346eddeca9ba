-- What all scripts of a gate share. It stands before each of them, runs nothing by itself, and names the keys, which every
-- script receives in this order:
local GATE, BUYERS, HELD, JOURNAL, UNLANDED, ENDED, ADJUSTED, SALE, BUILD, TOUCHED = unpack(KEYS)
--
-- GATE      hash    state, starts, ends, limit, version; life = token of the build that made it; held = pieces held in all;
--                   ttl = 1 while the keys expire; repairs = how often counters were corrected; watch = token|deadline
--                   of whoever reads all entries just now; and for each SKU, in pieces: s: left, h: held, p: sold, t: total,
--                   u: of held, not known to be in the ledger, j: of those, in the journal; x: latest deadline known
-- BUYERS    hash    user -> pieces|order_sns that hold them|order_sns ended lately, lists separated by commas, latest last
-- HELD      hash    order_sn -> entry, see parse()
-- JOURNAL   stream  one field r = order_sn|user|lines|reserved|trace
-- UNLANDED  zset    order_sn -> ms of its last journaling, exactly the entries of stage q
-- ENDED     zset    order_sn -> ms of its end, exactly the entries of stages x and f
-- ADJUSTED  hash    adjustment id -> see adjust.lua
-- SALE      string  JSON
-- BUILD     string  token of the build that is going on
-- TOUCHED   set     order_sns whose entries changed since the watch was set
--
-- Ids are strings throughout. Times are Unix milliseconds, numbers of pieces small integers: both exact as doubles.

local GROUP = 'relays'
local DAY = 86400000
local MAX_ENDED = 16

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- tostring would write large numbers in scientific notation.
local function int(n) return string.format('%.0f', n) end

-- Entries: stage|user|lines|reason|expires|ended|reserved|journal|trace. Stages: q queued, l landed, c created, p paid,
-- x closed, f failed. journal is the id of the entry's message in JOURNAL, empty once that was acked.
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

-- An entry that cannot be read neither holds nor has ended. Scripts leave it as it is, and go on with the others.
local function rank(e) return e and RANK[e.stage or ''] or 0 end
local function holds(e) return rank(e) >= 1 and rank(e) <= 4 end
local function ended(e) return rank(e) == 5 end

-- A wish is what an entry's lines say: for each of them SKU, pieces and the names of its counters; and the pieces in all.
-- Most purchases of a sale ask for the same, so each text is read once per script.
local wishes = {}

local function wish_of(lines)
  local w = wishes[lines]
  if w then return w end
  w = { pieces = 0 }
  for sku, qty in string.gmatch(lines, '(%d+):(%d+)') do
    local n = tonumber(qty)
    w[#w + 1] = { sku = sku, n = n, left = 's:' .. sku, held = 'h:' .. sku, sold = 'p:' .. sku, unlanded = 'u:' .. sku,
      journaled = 'j:' .. sku }
    w.pieces = w.pieces + n
  end
  wishes[lines] = w
  return w
end

local function pieces_of(lines) return wish_of(lines).pieces end

-- What a script changes is gathered and written once, at its end, by flush(): Redis is asked by each call, and a call costs
-- more than what it does. So entries, buyers and counters are read and written through the functions below.

-- Counters.
local deltas = {}

local function count(field, n) deltas[field] = (deltas[field] or 0) + n end

-- weigh adds (sign 1) or removes (sign -1) what an entry means to the counters. An entry that ended means nothing.
local function weigh(e, sign)
  if not holds(e) then return end
  for _, line in ipairs(wish_of(e.lines)) do
    local n = sign * line.n
    count(line.left, -n)
    if e.stage == 'p' then
      count(line.sold, n)
    else
      count(line.held, n)
      count('held', n)
      if e.stage == 'q' then
        count(line.unlanded, n)
        if e.journal ~= '' then count(line.journaled, n) end
      end
    end
  end
end

-- Entries, as they are now: order_sn -> stored form, false when there is none.
local entries = {}
local changed_entries, entry_changed = {}, {}
local leaves_unlanded = {}

-- read_entries reads those of several order_sns at once.
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
  if not stored then return { pieces = 0, held = '', ended = '' } end
  local pieces, held, ended_sns = string.match(stored, '^(%-?%d+)|([^|]*)|([^|]*)$')
  if not pieces then return { pieces = 0, held = '', ended = '' } end -- unreadable: the ledger knows the limit too
  return { pieces = tonumber(pieces), held = held, ended = ended_sns }
end

local function format_buyer(b) return int(b.pieces) .. '|' .. b.held .. '|' .. b.ended end

local function list_add(list, sn)
  if list == '' then return sn end
  return list .. ',' .. sn
end

local function list_remove(list, sn)
  local kept = {}
  for other in string.gmatch(list, '%d+') do
    if other ~= sn then kept[#kept + 1] = other end
  end
  return table.concat(kept, ',')
end

local function list_latest(list, n)
  local all = {}
  for sn in string.gmatch(list, '%d+') do all[#all + 1] = sn end
  if #all <= n then return list end
  return table.concat(all, ',', #all - n + 1)
end

local buyers = {} -- user -> record, as it is now
local changed_buyers = {}

local function read_buyers(users)
  if #users == 0 then return end
  for i, stored in ipairs(redis.call('HMGET', BUYERS, unpack(users))) do buyers[users[i]] = parse_buyer(stored) end
end

local function buyer_of(user)
  if not buyers[user] then buyers[user] = parse_buyer(redis.call('HGET', BUYERS, user)) end
  return buyers[user]
end

-- change_buyer is buyer_of for one who changes the record.
local function change_buyer(user)
  local b = buyer_of(user)
  if not b.changed then
    b.changed = true
    changed_buyers[#changed_buyers + 1] = user
  end
  return b
end

local function list_entry(sn, e)
  local b = change_buyer(e.user)
  if holds(e) then
    b.pieces = b.pieces + pieces_of(e.lines)
    b.held = list_add(b.held, sn)
  else
    b.ended = list_latest(list_add(b.ended, sn), MAX_ENDED)
  end
end

local function unlist_entry(sn, e)
  local b = change_buyer(e.user)
  if holds(e) then
    b.pieces = b.pieces - pieces_of(e.lines)
    b.held = list_remove(b.held, sn)
  else
    b.ended = list_remove(b.ended, sn)
  end
end

-- Entries that change while somebody reads all of them page by page are noted for him, as long as they are not too many: see
-- watch.lua and tally.lua.
local MAX_TOUCHED = 2000
local watched

local function unwatch()
  redis.call('HDEL', GATE, 'watch')
  redis.call('UNLINK', TOUCHED)
  watched = false
end

local function touch(sn)
  if watched == nil then
    local stored = redis.call('HGET', GATE, 'watch')
    watched = stored and true or false
    if stored and now_ms() >= tonumber(string.match(stored, '|(%d+)$') or 0) then unwatch() end
  end
  if watched and redis.call('SADD', TOUCHED, sn) == 1 and redis.call('SCARD', TOUCHED) > MAX_TOUCHED then unwatch() end
end

local latest = {} -- field x: of GATE -> at: the latest deadline known; text: the same, when it is to be written

-- note_deadline keeps the latest deadline known of each SKU.
local function note_deadline(e)
  local at = tonumber(e.expires)
  for _, line in ipairs(wish_of(e.lines)) do
    local field = 'x:' .. line.sku
    local l = latest[field]
    if not l then
      l = { at = tonumber(redis.call('HGET', GATE, field) or 0) or 0 }
      latest[field] = l
    end
    if at > l.at then l.at, l.text = at, e.expires end
  end
end

-- change replaces an entry (old is nil when there was none) and everything that follows from it. The only way in which
-- pieces move after they were taken, so that what is given back was taken, and is given back once.
local function change(sn, old, new)
  touch(sn)
  if old then weigh(old, -1) end
  weigh(new, 1)
  local same_buyer = old and old.user == new.user and old.lines == new.lines and holds(old) == holds(new)
  if not same_buyer then
    if old then unlist_entry(sn, old) end
    list_entry(sn, new)
  end
  if old and old.stage == 'q' and new.stage ~= 'q' then leaves_unlanded[#leaves_unlanded + 1] = sn end
  if ended(new) then redis.call('ZADD', ENDED, new.ended, sn) end
  if new.stage == 'c' and new.expires ~= '' then note_deadline(new) end
  store_entry(sn, format(new))
end

-- call_with calls a command unless there is nothing to call it with.
local function call_with(command, key, args)
  if #args > 0 then redis.call(command, key, unpack(args)) end
end

-- flush writes what was gathered.
local function flush()
  for field, n in pairs(deltas) do
    if n ~= 0 then redis.call('HINCRBY', GATE, field, int(n)) end
  end
  for field, l in pairs(latest) do
    if l.text then redis.call('HSET', GATE, field, l.text) end
  end
  local put, gone = {}, {}
  for _, sn in ipairs(changed_entries) do
    if entries[sn] then
      put[#put + 1] = sn
      put[#put + 1] = entries[sn]
    else
      gone[#gone + 1] = sn
    end
  end
  call_with('HSET', HELD, put)
  call_with('HDEL', HELD, gone)
  put, gone = {}, {}
  for _, user in ipairs(changed_buyers) do
    local b = buyers[user]
    if b.pieces == 0 and b.held == '' and b.ended == '' then
      gone[#gone + 1] = user
    else
      put[#put + 1] = user
      put[#put + 1] = format_buyer(b)
    end
    b.changed = false
  end
  call_with('HSET', BUYERS, put)
  call_with('HDEL', BUYERS, gone)
  call_with('ZREM', UNLANDED, leaves_unlanded)
  deltas, latest, changed_entries, entry_changed, changed_buyers, leaves_unlanded = {}, {}, {}, {}, {}, {}
end

-- every lists each step-th argument, beginning with number first.
local function every(step, first)
  local out = {}
  for i = first, #ARGV, step do out[#out + 1] = ARGV[i] end
  return out
end

-- journal_add journals a purchase and returns the id of its message.
local function journal_add(sn, user, lines, reserved, trace)
  return redis.call('XADD', JOURNAL, '*', 'r', sn .. '|' .. user .. '|' .. lines .. '|' .. reserved .. '|' .. trace)
end

-- expire gives all keys 24 h more once the activity is over and nothing is held, and takes the expiry off when that is no
-- longer so. Called after flush(). changed tells whether the script has changed anything: looking alone puts nothing off.
local function expire(now, changed)
  local g = redis.call('HMGET', GATE, 'state', 'ends', 'held', 'ttl')
  local over = g[1] == 'ended' or now >= tonumber(g[2])
  local idle = over and (tonumber(g[3] or 0) or 0) <= 0
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
    if rank(e) > 0 then unlist_entry(sn, e) end
    store_entry(sn, false)
  end
  call_with('ZREM', ENDED, sns)
  return #sns
end

-- finish ends the purchases that ARGV lists (order_sn, user, lines, reason in turn) with the given stage: what release and
-- drop share. A paid entry ends only by a release with the reason refunded.
local function finish(stage)
  local now = now_ms()
  local changed = 0
  read_entries(every(4, 1))
  for i = 1, #ARGV, 4 do
    local sn, user, lines, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local stored = stored_entry(sn)
    local old = stored and parse(stored) or nil
    if not old then
      change(sn, nil, { stage = stage, user = user, lines = lines, reason = reason, expires = '', ended = int(now),
        reserved = '', journal = '', trace = '' })
      changed = changed + 1
    elseif holds(old) and (old.stage ~= 'p' or stage == 'x' and reason == 'refunded') then
      local new = copy(old)
      new.stage = old.stage == 'c' and 'x' or stage
      new.reason, new.ended, new.expires, new.journal = reason, int(now), '', ''
      change(sn, old, new)
      changed = changed + 1
    end
  end
  trim(now, 8)
  flush()
  expire(now, changed > 0)
  return changed
end

