-- adjust: applies an adjustment or undoes it, each once per id.
-- KEYS    as in prelude.lua
-- ARGV    id, then 'apply', SKU, units to add (negative: to remove), '1' to remove units even if fewer are left; or
--         id, 'undo'
-- returns 'ok', 'insufficient', 'unknown_sku', 'conflict' when the id is applied with other content, 'decided' when
--         units are to be removed without force and the id is decided, or 'no_gate'
-- Stored values: SKU|units = applied; m = decided: undone, or decided before the gate was built. A decided adjustment
-- never changes anything again, so a late attempt has no effect.
-- cost    O(1)
if redis.call('EXISTS', GATE) == 0 then return 'no_gate' end
run_at_full_memory()
local id, step, sku, delta, force = unpack(ARGV)
local stored = redis.call('HGET', ADJUSTED, id)
if stored == 'm' then
  if step == 'apply' and force ~= '1' and tonumber(delta) < 0 then return 'decided' end
  return 'ok'
end
local applied_sku, applied_delta = string.match(stored or '', '^(%d+)|(%-?%d+)$')

if step == 'undo' then
  if applied_sku then
    redis.call('HINCRBY', GATE, 's:' .. applied_sku, int(-tonumber(applied_delta)))
    redis.call('HINCRBY', GATE, 't:' .. applied_sku, int(-tonumber(applied_delta)))
  end
  redis.call('HSET', ADJUSTED, id, 'm')
elseif applied_sku then
  if applied_sku ~= sku or applied_delta ~= delta then return 'conflict' end
  return 'ok'
else
  local left = redis.call('HGET', GATE, 's:' .. sku)
  if not left then return 'unknown_sku' end
  if force ~= '1' and tonumber(delta) < 0 and tonumber(left) + tonumber(delta) < 0 then return 'insufficient' end
  redis.call('HINCRBY', GATE, 's:' .. sku, delta)
  redis.call('HINCRBY', GATE, 't:' .. sku, delta)
  redis.call('HSET', ADJUSTED, id, sku .. '|' .. delta)
end
expire(now_ms(), true)
return 'ok'
