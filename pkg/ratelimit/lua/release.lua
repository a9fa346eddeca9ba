-- KEYS: the places of one key. ARGV: holder. Answers 1 if it had one. Cost: O(log places).
return {redis.call('ZREM', KEYS[1], ARGV[1])}
