-- settle: raises purchases to the state of the ledger; adopts unknown ones; corrects a buyer or lines that differ.
-- KEYS    as in prelude.lua
-- ARGV    for each purchase: order_sn, user, lines, stage (l, c or p), deadline (of c) or ''
-- returns the number of entries changed, or 'no_gate'
-- An entry that is as far or further, and one that ended, stays as it is. An adoption takes units even below 0.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()

-- raise raises the entry of a purchase whose buyer and lines are those given. It returns false for an entry that is as
-- far or further, or has a deadline. It does the same as change(), but saves parsing the entry: nearly all settlements
-- are of this kind.
local function raise(sn, stored, user, lines, stage, expires)
  local old = string.sub(stored, 1, 1)
  if (RANK[old] or 5) >= RANK[stage] then return false end
  local purchase = '|' .. user .. '|' .. lines .. '||'
  if string.sub(stored, 2, #purchase + 1) ~= purchase then return false end
  local rest = string.match(stored, '^||(%d*|[^|]*|[^|]*)$', #purchase + 2) -- reserved, journal, trace
  if not rest then return false end
  touch(sn)
  for _, line in ipairs(parse_lines(lines)) do
    if old == 'q' then count(line.unlanded, -line.n) end
    if stage == 'p' then
      count(line.sold, line.n)
      count(line.held, -line.n)
      count('held', -line.n)
    end
  end
  if old == 'q' then removed_from_unlanded[#removed_from_unlanded + 1] = sn end
  if expires ~= '' then note_deadline(lines, expires) end
  store_entry(sn, stage .. purchase .. expires .. '||' .. rest)
  return true
end

-- correct raises or corrects any other entry, and adopts a purchase that has none. It returns whether it changed it.
local function correct(sn, stored, user, lines, stage, expires)
  local old = stored and parse(stored) or nil
  local new
  if not old then
    new = { stage = stage, user = user, lines = lines, reason = '', expires = expires, ended = '', reserved = '',
      journal = '', trace = '' }
  elseif holds(old) then
    new = copy(old)
    new.user, new.lines = user, lines
    if RANK[stage] > RANK[old.stage] then new.stage = stage end
    if new.stage == 'c' then
      if stage == 'c' and expires ~= '' then new.expires = expires end
    else
      new.expires = ''
    end
  end
  if not new or format(new) == stored then return false end
  change(sn, old, new)
  return true
end

local changed = 0
read_entries(every(5, 1))
for i = 1, #ARGV, 5 do
  local sn, user, lines, stage, expires = unpack(ARGV, i, i + 4)
  local stored = stored_entry(sn)
  if stored and raise(sn, stored, user, lines, stage, expires) or correct(sn, stored, user, lines, stage, expires) then
    changed = changed + 1
  end
end
flush()
if changed > 0 then expire(now_ms(), true) end
return changed
