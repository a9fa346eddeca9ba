-- rejournal: journals purchases again whose journal entry was acked or lost.
-- KEYS    as in prelude.lua
-- ARGV    length from which the journal is full; 'lost' for those that are not known to be in the ledger only, or 'any'
--         for all that hold units, because the ledger lost them; then order_sns
-- returns the number of entries journaled, or 'no_gate'
-- The status that the buyer reads never falls: a landed entry becomes one that is not known to be in the ledger, which
-- its buyer reads as queued as before, and one that is created or paid stays so.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local length = journal_length()
local room = tonumber(ARGV[1]) - length
local any = ARGV[2] == 'any'
local now = now_ms()
local journaled, units = 0, {}
read_entries(every(1, 3))
for i = 3, #ARGV do
  if room <= 0 then break end
  local sn = ARGV[i]
  local stored = stored_entry(sn)
  local old = stored and parse(stored) or nil
  local wanted = old and (old.stage == 'q' or any and holds(old))
  if wanted and (old.journal == '' or #redis.call('XRANGE', JOURNAL, old.journal, old.journal) == 0) then
    if journaled == 0 then run_at_full_memory() end
    local new = copy(old)
    new.journal = journal_add({ journal_record(sn, old.user, old.lines, old.reserved, old.trace) })
    add_units(units, old.lines)
    if old.stage == 'l' then new.stage = 'q' end
    change(sn, old, new)
    if new.stage == 'q' then redis.call('ZADD', UNLANDED, int(now), sn) end
    room = room - 1
    journaled = journaled + 1
  end
end
flush()
if length == 0 then redis.call('DEL', JOURNALED) end -- the counters of a journal that was lost
count_journaled(units, 1, 0)
return journaled
