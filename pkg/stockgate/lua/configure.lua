-- configure: sets state, window and limits.
-- KEYS    as in prelude.lua
-- ARGV    state, starts, ends, per-user limit, version, reorders, room, captcha; then, to override a higher version, the
--         gate's version
-- returns 'ok', 'version' when the gate has a higher one or not the one to override, or 'no_gate'
-- cost    O(1)
local version = redis.call('HGET', GATE, 'version')
if not version then return 'no_gate' end
if ARGV[9] then
  if version ~= ARGV[9] then return 'version' end
elseif tonumber(version) > tonumber(ARGV[5]) then
  return 'version'
end
run_at_full_memory()
redis.call('HSET', GATE, 'state', ARGV[1], 'starts', ARGV[2], 'ends', ARGV[3], 'limit', ARGV[4], 'version', ARGV[5],
  'reorders', ARGV[6], 'room', ARGV[7], 'captcha', ARGV[8])
expire(now_ms(), false)
return 'ok'
