-- release: ends purchases as closed(reason) and restores their units.
-- KEYS    as in prelude.lua
-- ARGV    for each purchase: order_sn, user, lines, reason
-- returns the number of entries changed, or 'no_gate'
-- An entry that ended stays as it is, and one that is paid unless the reason is refunded. An unknown order_sn restores
-- nothing and gets its terminal entry.
-- cost    O(purchases)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
return finish('x')
