-- allowances: whether buyers may reserve units at all, by what they hold and what they have lost.
-- KEYS    as in prelude.lua
-- ARGV    users, at least one
-- returns 'no_gate', or for each user 'left', or as reserve.lua: 'limit_reached;order_sns|ms or empty'
-- cost    O(users)
local gate = redis.call('HMGET', GATE, 'limit', 'reorders')
if not gate[1] then return 'no_gate' end
local limit, reorders = tonumber(gate[1]), tonumber(gate[2] or 0) or 0
local now = now_ms()
read_buyers(ARGV)
local out = {}
for i, user in ipairs(ARGV) do
  local buyer = buyer_of(user)
  out[i] = 'left'
  if buyer.units >= limit then
    out[i] = 'limit_reached;' .. buyer.held .. '|'
  else
    local _, barred = history(buyer, reorders)
    if now < barred then out[i] = 'limit_reached;' .. buyer.held .. '|' .. int(barred) end
  end
end
return out
