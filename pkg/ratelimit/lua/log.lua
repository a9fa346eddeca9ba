-- SlidingLog. The value is a list of the times of all permits, oldest first. Unlike the members of a sorted set, list
-- entries need not be unique, so no permit is lost to another one of the same microsecond; and a list takes a quarter
-- of the memory. It is never longer than rate, except for entries that expired since the last grant. Arguments:
-- period, rate. Cost: LLEN, two LINDEX (about log2(rate) more after a pause), and LTRIM, RPUSH, PEXPIRE if granted.

-- returns the time (that of the newest permit if the clock went back), the number of expired entries and of live ones
local function log_read(key, a)
  local period = ARGV[a + 6] + 0
  local len = call('LLEN', key)
  if len == 0 then return now, 0, 0 end
  local t = max(now, tonumber(call('LINDEX', key, -1) or nil) or now)
  if t > now + period then -- the clock was set back by more than a period: all entries count as of now
    call('DEL', key)
    for _ = 1, len do call('RPUSH', key, format('%.0f', now)) end
    call('PEXPIRE', key, ceil(period / 1000) + 1)
    return now, 0, len
  end
  local lo, hi = 0, len -- the first live entry is between lo and hi
  if (tonumber(call('LINDEX', key, 0) or nil) or t) > t - period then hi = 0 end
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if (tonumber(call('LINDEX', key, mid) or nil) or t) > t - period then hi = mid else lo = mid + 1 end
  end
  return t, lo, len - lo
end

local function log_save(key, a, t, old, give)
  if old > 0 then call('LTRIM', key, old, -1) end
  local stamp, batch = format('%.0f', t), {}
  for i = 1, give do
    batch[#batch + 1] = stamp
    if #batch == 1000 or i == give then
      call('RPUSH', key, unpack(batch))
      batch = {}
    end
  end
  call('PEXPIRE', key, ceil((t + ARGV[a + 6] - now) / 1000) + 1)
end

local function log_decide(key, a)
  local n, least, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 4] + 0
  local period, rate = ARGV[a + 6] + 0, ARGV[a + 7] + 0
  local t, old, live = log_read(key, a)
  if debt < 0 then debt = -debt - live end -- at least -debt; a positive debt is added
  debt = min(debt, rate - live)
  if debt > 0 then
    log_save(key, a, t, old, debt)
    old, live = 0, live + debt
  end
  local left, reset = max(0, rate - live), 0
  if live > 0 then reset = tonumber(call('LINDEX', key, -1)) + period - now end
  local give = min(n, left)
  if give < least or n == 0 then
    local retry, need = 0, max(least, 1)
    local must = live + need - rate
    if need > rate then
      retry = -1
    elseif must > 0 then
      retry = tonumber(call('LINDEX', key, old + must - 1)) + period - now
    end
    return n == 0 and 0 or -1, left, 0, retry, reset, t, 0
  end
  return give, left - give, 0, 0, t + period - now, t, 0, t, old, give
end

local function log_refund(key, a)
  call('LREM', key, -ARGV[a + 1], ARGV[a + 2]) -- entries of that very microsecond, newest first
end
