-- KEYS: the rules. ARGV: the version they have (0 = there are none), the version they get, the text.
-- Answers 1 if they were put and told to all who listen, 0 if they have another version.
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'text', ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[2])
return 1
