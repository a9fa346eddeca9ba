-- adjust: one step of an adjustment, which is known by its id.
-- KEYS    as in prelude.lua
-- ARGV    id, life of the gate and stored value ('' when none) as the caller has just read them, then
--         'apply', SKU, pieces to add (negative: to take off), '1' to take them off even if fewer are left; or 'undo'
-- returns 'ok', 'stale' when the gate or the adjustment is no longer as the caller read it, 'insufficient', 'unknown_sku',
--         'conflict' when the id is applied with other content, or 'no_gate'
-- Stored values: a|round|SKU|pieces = applied, u|round = undone, m = contained in the figures the gate was built from.
-- Each undo begins a new round, so that an attempt of an earlier one that arrives late is stale and does nothing.
-- cost    O(1)
local life = redis.call('HGET', GATE, 'life')
if not life then return 'no_gate' end
local id, step, sku, delta, force = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local stored = redis.call('HGET', ADJUSTED, id) or ''
local applied_round, applied_sku, applied_delta = string.match(stored, '^a|(%d+)|(%d+)|(%-?%d+)$')
local undone_round = string.match(stored, '^u|(%d+)$')
local round = applied_round or undone_round or '0'

-- The first one of the same round has done it: a client's own retry, or an earlier run of the same steps.
if stored == 'm' then return 'ok' end
if step == 'apply' and applied_round then
  if applied_sku ~= sku or applied_delta ~= delta then return 'conflict' end
  return 'ok'
end
if step == 'undo' and undone_round then return 'ok' end
if life ~= ARGV[2] or stored ~= ARGV[3] then return 'stale' end

if step == 'undo' then
  if applied_round then
    redis.call('HINCRBY', GATE, 's:' .. applied_sku, int(-tonumber(applied_delta)))
    redis.call('HINCRBY', GATE, 't:' .. applied_sku, int(-tonumber(applied_delta)))
  end
  redis.call('HSET', ADJUSTED, id, 'u|' .. int(tonumber(round) + 1))
else
  local left = redis.call('HGET', GATE, 's:' .. sku)
  if not left then return 'unknown_sku' end
  if force ~= '1' and tonumber(delta) < 0 and tonumber(left) + tonumber(delta) < 0 then return 'insufficient' end
  redis.call('HINCRBY', GATE, 's:' .. sku, delta)
  redis.call('HINCRBY', GATE, 't:' .. sku, delta)
  redis.call('HSET', ADJUSTED, id, 'a|' .. round .. '|' .. sku .. '|' .. delta)
end
expire(now_ms(), true)
return 'ok'
