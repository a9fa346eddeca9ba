-- ack: removes published entries from the journal.
-- KEYS    as in prelude.lua
-- ARGV    for each entry: its id in the journal, order_sn
-- returns the number of entries removed
-- Needs no gate: entries of a lost gate are published, too. If the purchase was journaled again meanwhile, its newer
-- journal entry stays.
-- cost    O(entries)
local ids = every(2, 1)
if redis.call('EXISTS', GATE) == 1 then
  run_at_full_memory()
  read_entries(every(2, 2))
  for i = 1, #ARGV, 2 do
    local id, sn = ARGV[i], ARGV[i + 1]
    local stored = stored_entry(sn)
    local old = stored and parse(stored) or nil
    if holds(old) and old.journal == id then
      local new = copy(old)
      new.journal = ''
      change(sn, old, new)
    end
  end
  flush()
end
if redis.call('EXISTS', JOURNAL) == 0 then return 0 end
redis.pcall('XACK', JOURNAL, GROUP, unpack(ids)) -- fails if the group was lost; then there is nothing to ack
return redis.call('XDEL', JOURNAL, unpack(ids))
