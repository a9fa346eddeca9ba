-- rejournal: journals purchases again that are not known to be in the ledger and whose journal entry was acked or lost.
-- KEYS    as in prelude.lua
-- ARGV    length from which the journal is full; then order_sns
-- returns the number of entries journaled, or 'no_gate'
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
local room = tonumber(ARGV[1]) - redis.call('XLEN', JOURNAL)
local now = now_ms()
local journaled = 0
read_entries(every(1, 2))
for i = 2, #ARGV do
  if room <= 0 then break end
  local sn = ARGV[i]
  local stored = stored_entry(sn)
  local old = stored and parse(stored) or nil
  if old and old.stage == 'q' and (old.journal == '' or #redis.call('XRANGE', JOURNAL, old.journal, old.journal) == 0) then
    if journaled == 0 then run_at_full_memory() end
    local new = copy(old)
    new.journal = journal_add(sn, old.user, old.lines, old.reserved, old.trace)
    change(sn, old, new)
    redis.call('ZADD', UNLANDED, int(now), sn)
    room = room - 1
    journaled = journaled + 1
  end
end
flush()
return journaled
