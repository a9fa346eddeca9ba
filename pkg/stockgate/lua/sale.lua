-- sale: stores the public description of the sale, unless a higher version is stored. A malformed one is replaced.
-- KEYS    as in prelude.lua
-- ARGV    JSON, version, 'anyway' to replace a stored one of any version
-- returns 'ok', or 'old'
-- cost    O(size)
local stored = redis.pcall('GET', SALE)
if type(stored) == 'string' and ARGV[3] ~= 'anyway' then
  local ok, sale = pcall(cjson.decode, stored)
  if ok and type(sale) == 'table' and (tonumber(sale.version) or 0) > tonumber(ARGV[2]) then return 'old' end
end
run_at_full_memory()
redis.call('SET', SALE, ARGV[1])
local ttl = redis.call('PTTL', GATE)
if ttl > 0 then redis.call('PEXPIRE', SALE, ttl) end
return 'ok'
