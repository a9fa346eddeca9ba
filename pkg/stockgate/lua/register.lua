-- register: adds gates to the registry, also at full memory.
-- KEYS    the registry, and none of those in prelude.lua
-- ARGV    ids of activities
-- returns 'ok'
-- cost    O(gates)
redis.call('SREM', KEYS[1], '') -- never refused, like the HDEL of run_at_full_memory()
redis.call('SADD', KEYS[1], unpack(ARGV))
return 'ok'
