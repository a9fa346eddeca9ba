-- sale: stores the sale as buyers see it, unless a later version is there.
-- KEYS    as in prelude.lua
-- ARGV    JSON, version
-- returns 'ok', or 'old'
-- cost    O(size)
local stored = redis.call('GET', SALE)
if stored and (cjson.decode(stored).version or 0) > tonumber(ARGV[2]) then return 'old' end
redis.call('SET', SALE, ARGV[1])
local ttl = redis.call('PTTL', GATE)
if ttl > 0 then redis.call('PEXPIRE', SALE, ttl) end
return 'ok'
