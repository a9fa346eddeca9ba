-- unacked: journal entries that consumers have read and not acked, oldest first.
-- KEYS    as in prelude.lua
-- ARGV    maximum number of entries
-- returns for each entry: its consumer, id and purchases
-- Needs no gate, like read.lua. An entry that was lost from the journal is not returned.
-- cost    O(entries)
local pending = redis.pcall('XPENDING', JOURNAL, GROUP, '-', '+', ARGV[1])
if pending.err then
  if string.find(pending.err, 'NOGROUP', 1, true) then return {} end
  return pending
end
local out = {}
for _, p in ipairs(pending) do
  local entry = redis.call('XRANGE', JOURNAL, p[1], p[1])[1]
  if entry then
    out[#out + 1] = p[2]
    out[#out + 1] = p[1]
    out[#out + 1] = entry[2][2]
  end
end
return out
