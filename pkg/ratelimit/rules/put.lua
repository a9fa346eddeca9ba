-- KEYS: the rules. ARGV: their current version (0 = there are none), the new version, the text. Returns 1 if the rules
-- were written and published, 0 if they have another version.
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'text', ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[2])
return 1
