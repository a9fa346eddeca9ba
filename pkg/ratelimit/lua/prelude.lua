-- What all scripts share. Each algorithm's file gives three functions:
--
--   look(key, a)          -> give (-1: refused), left, wait, retry, reset, stamp, debit, then what keep needs. Reads only,
--                            but for a value that was written under another limit, or before the clock was set back: the
--                            first look converts it, once, or it would go on being earned as before, or never
--   keep(key, a, x, y, z)    writes what look decided; called only if something was granted
--   undo(key, a)             gives ARGV[a+1] permits back that were taken at ARGV[a+2] for ARGV[a+3]
--
-- ARGV from a+1: n, least, wait, debt, inherit (0 as is, 1 in proportion), then six numbers of the algorithm, one of which
-- says under which limit the value was written. debt is what pods granted by themselves while Redis was gone: above 0 permits
-- to be added, below 0 at least so many are spent. It is written whatever the answer is: it is told once.
-- Times are microseconds since 2026, or whole 1/32 of them, which doubles add without loss until 2034. Every number that
-- leaves is whole: a reply with a fraction would be cut, a refusal's wait would not suffice.
--
-- Making these functions costs more than what most decisions do. So a script about one key begins with the file of the same
-- name in fast/, which decides the common cases, and only those, in the same way: no debt, nobody has to wait, all or nothing, no
-- other limit, no clock set back. Each ARGV costs as well. So such a script takes n (-n if the caller would wait, "" if the case
-- is not common), the first two to four numbers, and all of the above as one text that fast/rest.lua takes apart if need be.
local call = redis.call
local floor, ceil, max, min, abs = math.floor, math.ceil, math.max, math.min, math.abs
local match, format = string.match, string.format
local clock = call('TIME')
local now = (clock[1] - 1767225600) * 1000000 + clock[2]
