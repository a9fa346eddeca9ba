-- KEYS: the slots of one key. ARGV: holder. Returns 1 if it had a slot. Cost: O(log slots).
return {redis.call('ZREM', KEYS[1], ARGV[1])}
