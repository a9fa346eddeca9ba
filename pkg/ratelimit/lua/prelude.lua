-- Shared by all scripts. The file of each algorithm defines three functions:
--
--   decide(key, a)         -> granted (-1: refused), remaining, wait, retry, reset, stamp, debit, arguments of save.
--                            It only reads, with one exception: it converts a value that was written under another
--                            limit or before the clock was set back, once. Otherwise the value would be earned at the
--                            old rate, or never.
--   save(key, a, x, y, z)     writes what decide returned; called only after a grant
--   refund(key, a)            refunds ARGV[a+1] permits that were taken with the stamp ARGV[a+2] for the price ARGV[a+3]
--
-- ARGV from a+1: n, least, wait, debt, inherit (0 as is, 1 in proportion), then six arguments that describe the limit.
-- One of them is the limit as it is stored with the value. debt reports grants, in permits, that processes made by
-- themselves while Redis was unreachable. A positive debt is added to what is spent. A negative debt sets what is
-- spent to at least -debt. The script writes it even after a refusal, because it is reported only once. Times are
-- microseconds since 2026, or whole 1/32 of them, which doubles add without loss until 2034. All returned numbers are
-- whole: Redis would truncate a fraction, and the wait of a refusal would be too short.
--
-- Creating these functions costs more than most decisions. So a script about one key begins with a fast path, the file
-- of the same name in fast/. It decides the common cases in the same way, and only those: no debt, no wait, all or
-- nothing, no other limit, no clock set back. Each ARGV costs time too. So such a script takes n (-n if the caller
-- would wait, "" if the case is not common), the first two to four arguments of the limit, and all of the above as one
-- text, which fast/rest.lua splits if needed.
local call = redis.call
local floor, ceil, max, min, abs = math.floor, math.ceil, math.max, math.min, math.abs
local match, format = string.match, string.format
local clock = call('TIME')
local now = (clock[1] - 1767225600) * 1000000 + clock[2]
