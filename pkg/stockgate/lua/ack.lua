-- ack: published entries leave the journal.
-- KEYS    as in prelude.lua
-- ARGV    journal ids
-- returns the number of entries that left
-- Needs no gate: what was published was published. The entry of a purchase that was journaled again meanwhile stays.
-- cost    O(ids)
local live = redis.call('EXISTS', GATE) == 1
if live then
  for _, id in ipairs(ARGV) do
    local found = redis.call('XRANGE', JOURNAL, id, id)
    local sn = found[1] and string.match(found[1][2][2], '^%d+')
    local stored = sn and redis.call('HGET', HELD, sn)
    local old = stored and parse(stored) or nil
    if old and old.stage == 'q' and old.journal == id then
      local new = copy(old)
      new.journal = ''
      change(sn, old, new)
    end
  end
  flush()
end
if redis.call('EXISTS', JOURNAL) == 0 then return 0 end
redis.pcall('XACK', JOURNAL, GROUP, unpack(ARGV)) -- fails when the group was lost, and then there is nothing to ack
return redis.call('XDEL', JOURNAL, unpack(ARGV))
