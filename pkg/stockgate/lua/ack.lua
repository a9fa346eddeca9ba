-- ack: removes published entries from the journal.
-- KEYS    as in prelude.lua
-- ARGV    for each entry: its id, number of its purchases, their units as the lines of one purchase
-- returns the number of entries removed
-- Needs no gate: entries of a lost gate are published, too. The purchases stay as they are, so that nothing but the
-- journal is written. An entry that was removed before is not counted again.
-- cost    O(entries)
redis.pcall('XACK', JOURNAL, GROUP, unpack(every(3, 1))) -- fails if the group was lost; then there is nothing to ack
local removed, joined, units = 0, 0, {}
for i = 1, #ARGV, 3 do
  if redis.call('XDEL', JOURNAL, ARGV[i]) == 1 then
    removed = removed + 1
    joined = joined + tonumber(ARGV[i + 1]) - 1
    add_units(units, ARGV[i + 2])
  end
end
if redis.call('XLEN', JOURNAL) == 0 then
  redis.call('DEL', JOURNALED) -- also corrects counters that had lost their journal, or the reverse
else
  count_journaled(units, -1, joined)
end
return removed
