-- renew_epoch: ends the import into a gate: its figures become those of the database, and it takes purchases again.
-- KEYS    as in prelude.lua
-- ARGV    epoch, state, starts, ends, limit, version, reorders, room, captcha, number of SKUs; for each: SKU, total;
--         then the ids of the decided adjustments, which the totals contain or never will
-- returns 'ok', or 'no_gate'
-- The units left follow from the totals and from what the entries hold at this moment. Adjustments that the database
-- does not have are dropped. Corrections of counters that were decided before fail.
-- cost    O(SKUs + adjustments)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
redis.call('HSET', GATE, 'state', ARGV[2], 'starts', ARGV[3], 'ends', ARGV[4], 'limit', ARGV[5], 'version', ARGV[6],
  'reorders', ARGV[7], 'room', ARGV[8], 'captcha', ARGV[9])
local skus = tonumber(ARGV[10])
for i = 11, 9 + 2 * skus, 2 do
  local sku, total = ARGV[i], ARGV[i + 1]
  local has = redis.call('HMGET', GATE, 'h:' .. sku, 'p:' .. sku)
  local held, sold = tonumber(has[1] or 0) or 0, tonumber(has[2] or 0) or 0
  redis.call('HSET', GATE, 't:' .. sku, total, 's:' .. sku, int(tonumber(total) - held - sold))
  for _, field in ipairs({ 'h:', 'p:', 'u:' }) do redis.call('HSETNX', GATE, field .. sku, '0') end
end
redis.call('UNLINK', ADJUSTED)
for i = 11 + 2 * skus, #ARGV do redis.call('HSET', ADJUSTED, ARGV[i], 'm') end
redis.call('HINCRBY', GATE, 'repairs', '1')
redis.call('HSET', GATE, 'epoch', ARGV[1])
redis.call('HDEL', GATE, 'importing')
expire(now_ms(), true)
return 'ok'
