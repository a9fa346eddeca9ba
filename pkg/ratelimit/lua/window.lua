-- FixedWindow. The value is a string "count;window;period;rate". Windows are counted from Unix time 0. Arguments:
-- period, rate, "", "", "", "period;rate". Cost: GET, and SET if granted. The key expires with its window.
local unix = now + 1767225600000000

local function window_save(key, a, at, count)
  local left = (at + 1) * ARGV[a + 6] - unix
  call('SET', key, format('%d;%d;%s', count, at, ARGV[a + 11]), 'PX', ceil(left / 1000) + 1)
end

local function window_read(key, a)
  local period, rate = ARGV[a + 6] + 0, ARGV[a + 7] + 0
  local at = floor(unix / period)
  local v = call('GET', key)
  if not v then return at, 0 end
  local count, at0, under = match(v, '^(%d+);(%d+);(.*)$')
  at0, count = tonumber(at0 or nil), tonumber(count or nil)
  if not (at0 and count) then return at, 0 end
  if under == ARGV[a + 11] then
    if at0 < at then return at, 0 end
    count = min(count, rate)
    if at0 == at + 1 then -- the clock went back into the previous window
      at = at0
    elseif at0 > at then -- it was set back further: the count is kept and counts as of now
      window_save(key, a, at, count)
    end
    return at, count
  end
  -- another limit: carry over what is spent if its window has not ended
  local period0, rate0 = match(under, '^(%d+);(%d+)$')
  period0, rate0 = tonumber(period0 or nil), tonumber(rate0 or nil)
  if not (period0 and rate0) or (at0 + 1) * period0 <= unix then return at, 0 end
  if ARGV[a + 5] == '1' then count = ceil(count * rate / rate0) end
  window_save(key, a, at, min(count, rate))
  return at, min(count, rate)
end

local function window_decide(key, a)
  local n, least, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 4] + 0
  local period, rate = ARGV[a + 6] + 0, ARGV[a + 7] + 0
  local at, count = window_read(key, a)
  if debt ~= 0 then -- positive: add; negative: at least -debt
    count = min(rate, debt > 0 and count + debt or max(count, -debt))
    window_save(key, a, at, count)
  end
  local left, ends, stamp = rate - count, (at + 1) * period - unix, at * period - 1767225600000000
  local give = min(n, left)
  if give < least or n == 0 then
    local retry, need = 0, max(least, 1)
    if need > rate then retry = -1 elseif need > left then retry = ends end
    return n == 0 and 0 or -1, left, 0, retry, count > 0 and ends or 0, stamp, 0
  end
  return give, left - give, 0, 0, ends, stamp, 0, at, count + give
end

local function window_refund(key, a)
  local at, count = window_read(key, a)
  if count > 0 and at * ARGV[a + 6] - 1767225600000000 == tonumber(ARGV[a + 2]) then
    window_save(key, a, at, max(0, count - ARGV[a + 1]))
  end
end
