-- drop: the ledger refused purchases; their buyers are told failed(reason), or closed(reason) after created.
-- KEYS    as in prelude.lua
-- ARGV    for each purchase: order_sn, user, lines, reason
-- returns the number of entries changed, or 'no_gate'
-- An entry that ended or is paid stays as it is. An unknown order_sn gives nothing back and gets its terminal entry.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
return finish('f')
