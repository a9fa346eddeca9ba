-- WarmUp. The value is a string "next;stored;stable": the time at which the next permit is due, the number of permits
-- that idle time has stored, and the limit under which it was written. Arguments: stable interval, largest grant,
-- warm-up, cold factor, longest time ahead. Cost: GET, and SET if granted. The key expires when the bucket is cold.
local function warm_curve(a)
  local stable, warmup = ARGV[a + 6] + 0, ARGV[a + 8] + 0
  local cold, threshold = stable * ARGV[a + 9], 0.5 * warmup / stable
  local full = threshold + 2 * warmup / (stable + cold)
  return stable, cold, threshold, full, warmup / full
end

local function warm_cold(a, due, stored)
  local _, _, _, full, cooldown = warm_curve(a)
  return due - now + ceil((full - stored) * cooldown)
end

local function warm_save(key, a, due, stored)
  call('SET', key, format('%.0f;%.17g;%s', due, stored, ARGV[a + 6]), 'PX', ceil(warm_cold(a, due, stored) / 1000) + 1)
end

local function warm_read(key, a)
  local stable, _, _, full, cooldown = warm_curve(a)
  local v = call('GET', key)
  local due, stored, stable0 = match(v or '', '^(-?[%d.]+);([%d.e+-]+);([%d.]+)$')
  due, stored, stable0 = tonumber(due or nil), tonumber(stored or nil), tonumber(stable0 or nil)
  if not (due and stored and stable0 and stable0 > 0) then return now, full end
  -- another rate: carry over the debt in permits, and the stored permits in proportion (full ~ 1/stable)
  if stable0 ~= stable then
    stored = stored * stable0 / stable
    if due > now then due = now + ceil((due - now) / stable0 * stable) end
    warm_save(key, a, due, stored)
  end
  if now > due then return now, min(full, stored + (now - due) / cooldown) end
  if due > now + ARGV[a + 10] then -- Redis's clock was set back: no key is locked out for longer than the limit allows
    due = now + ARGV[a + 10]
    warm_save(key, a, due, min(full, stored))
  end
  return due, min(full, stored)
end

-- the price of n permits while stored permits are stored: the area under the curve
local function warm_cost(a, stored, n)
  local stable, cold, threshold, full = warm_curve(a)
  local sum, above = 0, stored - threshold
  if above > 0 and n > 0 then
    local k = min(above, n)
    sum = k * (2 * stable + (cold - stable) / (full - threshold) * (2 * above - k)) / 2
    n = n - k
  end
  return sum + n * stable
end

local function warm_most(a, stored, free)
  if free < 0 then return 0 end
  local lo, hi = 1, ARGV[a + 7] + 0
  while lo < hi do
    local mid = floor((lo + hi + 1) / 2)
    if ceil(warm_cost(a, stored, mid - 1)) <= free then lo = mid else hi = mid - 1 end
  end
  return lo
end

local function warm_decide(key, a)
  local n, least, wait, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0
  local most = ARGV[a + 7] + 0
  local room = (most - 1) * ARGV[a + 6]
  local due, stored = warm_read(key, a)
  if debt ~= 0 then -- positive: add; negative: at least -debt
    local cost = ceil(abs(debt) * ARGV[a + 6])
    due = max(due, min(debt > 0 and due + cost or now + cost, now + room + ARGV[a + 10]))
    warm_save(key, a, due, stored)
  end
  local free = now + room - due
  local give = n
  if least < n then give = min(n, warm_most(a, stored, free + wait)) end
  if n == 0 or give < least or give > most or ceil(warm_cost(a, stored, give - 1)) > free + wait then
    local retry, need = -1, max(least, 1)
    local before = ceil(warm_cost(a, stored, need - 1))
    if need <= most and before <= room + wait then retry = max(0, ceil(before - free - wait)) end
    return n == 0 and 0 or -1, warm_most(a, stored, free), 0, retry, warm_cold(a, due, stored), now, 0
  end
  local before = ceil(warm_cost(a, stored, give - 1))
  -- the next permit follows no less than the stable price after the last of these, which passes at a rounded time
  local delay, cost = max(0, ceil(before - free)), max(ceil(warm_cost(a, stored, give)), before + ceil(ARGV[a + 6]))
  local after, rest = due + cost, max(0, stored - give)
  return give, warm_most(a, rest, now + room - after), delay, 0, warm_cold(a, after, rest), now, cost, after, rest
end

local function warm_refund(key, a)
  local due, stored = warm_read(key, a)
  local _, _, _, full = warm_curve(a)
  if due > now then warm_save(key, a, max(now, due - ARGV[a + 3]), min(full, stored + ARGV[a + 1])) end
end
