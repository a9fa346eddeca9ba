-- drop: ends purchases that the ledger rejected, as failed(reason), or as closed(reason) if they were created.
-- KEYS    as in prelude.lua
-- ARGV    for each purchase: order_sn, user, lines, reason
-- returns the number of entries changed, or 'no_gate'
-- An entry that ended or is paid stays as it is. An unknown order_sn restores nothing and gets its terminal entry.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
return finish('f')
