-- settle: raises purchases to the state of the ledger; adopts unknown ones; corrects a buyer or lines that differ.
-- KEYS    as in prelude.lua
-- ARGV    for each purchase: order_sn, user, lines, stage (l, c or p), deadline (of c) or ''
-- returns the number of entries changed, or 'no_gate'
-- An entry that is as far or further, and one that ended, stays as it is. An adoption takes units even below 0.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
local changed = 0
read_entries(every(5, 1))
for i = 1, #ARGV, 5 do
  local sn, user, lines, stage, expires = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local stored = stored_entry(sn)
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
    if new.stage ~= 'q' then new.journal = '' end
    if format(new) == stored then new = nil end
  end
  if new then
    change(sn, old, new)
    changed = changed + 1
  end
end
flush()
if changed > 0 then expire(now_ms(), true) end
return changed
