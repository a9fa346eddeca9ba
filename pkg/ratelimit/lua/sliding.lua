-- SlidingWindow. The value is a hash: bucket -> count, and p = the limit under which it was written. Buckets are
-- counted from Unix time 0; the oldest counts in full. Arguments: width, rate, buckets, "", "",
-- "width;rate;buckets". Cost: HGETALL (at most buckets + 2 fields), and HINCRBY, PEXPIRE if granted. The key expires
-- when its newest bucket no longer counts.
local unix = now + 1767225600000000

local function sliding_expire(key, a, at)
  call('PEXPIRE', key, ceil(((at + ARGV[a + 8] + 1) * ARGV[a + 6] - unix) / 1000) + 1)
end

-- writes the whole hash; counts are by age, in buckets before at
local function sliding_write(key, a, at, counts)
  call('DEL', key)
  for age, count in pairs(counts) do
    if count > 0 then call('HSET', key, format('%.0f', at - age), format('%.0f', count)) end
  end
  call('HSET', key, 'p', ARGV[a + 11])
  sliding_expire(key, a, at)
end

-- returns the bucket of now (or of the newest count if the clock went back), the sum, the counts by age, the fields
-- that no longer count, and whether the hash is empty
local function sliding_read(key, a)
  local width, buckets = ARGV[a + 6] + 0, ARGV[a + 8] + 0
  local at = floor(unix / width)
  local all = call('HGETALL', key)
  if #all == 0 then return at, 0, {}, {}, true end
  local where, what, stale, sum, newest, under = {}, {}, {}, 0, 0, nil
  for i = 1, #all, 2 do
    local bucket, count = tonumber(all[i]), tonumber(all[i + 1])
    if all[i] == 'p' then
      under = all[i + 1]
    elseif bucket and count then
      where[#where + 1], what[#what + 1] = bucket, count
      newest = max(newest, bucket)
    else
      stale[#stale + 1] = all[i]
    end
  end
  local counts = {}
  if under == ARGV[a + 11] then
    local back = newest > at + buckets -- the clock was set back by more than the window: all counts are as of now
    if not back then at = max(at, newest) end
    for i = 1, #where do
      local age = back and 0 or at - where[i]
      if age > buckets then
        stale[#stale + 1] = format('%.0f', where[i])
      else
        counts[age] = (counts[age] or 0) + what[i]
        sum = sum + what[i]
      end
    end
    if back then
      sliding_write(key, a, at, counts)
      stale = {}
    end
    return at, sum, counts, stale, false
  end
  -- Another limit: carry over what is spent. With different buckets, the whole count counts as of now, the strict
  -- side.
  local width0, rate0, buckets0 = match(under or '', '^(%d+);(%d+);(%d+)$')
  width0, rate0, buckets0 = tonumber(width0 or nil), tonumber(rate0 or nil), tonumber(buckets0 or nil)
  if not (width0 and rate0 > 0) then width0, rate0, buckets0 = width, ARGV[a + 7] + 0, buckets end
  local same = width0 == width and buckets0 == buckets
  if same and newest <= at + buckets then at = max(at, newest) end
  if not same then at = max(at, floor(newest * width0 / width)) end
  local now0 = max(floor(unix / width0), newest)
  for i = 1, #where do
    if now0 - where[i] <= buckets0 then
      local count, age = what[i], same and max(0, at - where[i]) or 0
      if ARGV[a + 5] == '1' then count = ceil(count * ARGV[a + 7] / rate0) end
      counts[age] = (counts[age] or 0) + count
      sum = sum + count
    end
  end
  sliding_write(key, a, at, counts)
  return at, sum, counts, {}, false
end

local function sliding_save(key, a, at, stale, fresh, give)
  if #stale > 0 then call('HDEL', key, unpack(stale)) end
  if fresh then call('HSET', key, 'p', ARGV[a + 11]) end
  call('HINCRBY', key, format('%.0f', at), format('%.0f', give))
  sliding_expire(key, a, at)
end

local function sliding_decide(key, a)
  local n, least, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 4] + 0
  local width, rate, buckets = ARGV[a + 6] + 0, ARGV[a + 7] + 0, ARGV[a + 8] + 0
  local at, sum, counts, stale, fresh = sliding_read(key, a)
  if debt < 0 then debt = -debt - sum end -- at least -debt; a positive debt is added
  debt = min(debt, rate - sum)
  if debt > 0 then
    sliding_save(key, a, at, stale, fresh, debt)
    stale, fresh, sum = {}, false, sum + debt
    counts[0] = (counts[0] or 0) + debt
  end
  local left, stamp, reset = max(0, rate - sum), at * width - 1767225600000000, 0
  local function leaves(age) return (at - age + buckets + 1) * width - unix end
  local give = min(n, left)
  if give < least or n == 0 then
    for age = 0, buckets do
      if (counts[age] or 0) > 0 then
        reset = leaves(age)
        break
      end
    end
    local retry, need = 0, max(least, 1)
    if need > rate then
      retry = -1
    elseif need > left then
      local used = sum
      for age = buckets, 0, -1 do
        used = used - (counts[age] or 0)
        if used + need <= rate then
          retry = leaves(age)
          break
        end
      end
    end
    return n == 0 and 0 or -1, left, 0, retry, reset, stamp, 0
  end
  return give, left - give, 0, 0, leaves(0), stamp, 0, at, stale, fresh, give
end

local function sliding_refund(key, a)
  local bucket = format('%.0f', (ARGV[a + 2] + 1767225600000000) / ARGV[a + 6])
  local count = tonumber(call('HGET', key, bucket) or nil)
  if count and call('HGET', key, 'p') == ARGV[a + 11] then
    call('HSET', key, bucket, format('%.0f', max(0, count - ARGV[a + 1])))
  end
end
