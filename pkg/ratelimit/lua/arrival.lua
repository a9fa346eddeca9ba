-- TokenBucket, GCRA, LeakyBucket, LeakyQueue. The value is a string "tat;T;room": the theoretical arrival time, and
-- the limit under which it was written. All times here are ticks of 1/32 microsecond. Arguments: T per permit, room
-- (the burst tolerance), largest grant, longest reservation ahead, "", "T;room". Cost: GET, and SET if granted. The
-- key expires when the bucket is full.
local ticks = now * 32

local function arrival_save(key, a, tat)
  if tat > ticks then
    call('SET', key, format('%d;%s', tat, ARGV[a + 11]), 'PX', format('%d', (tat - ticks) / 32000 + 2))
  else
    call('DEL', key)
  end
end

local function arrival_read(key, a)
  local v = call('GET', key)
  if not v then return ticks end
  local tat0, under = match(v, '^(%d+);(.*)$')
  local tat = tonumber(tat0 or nil)
  if not (tat and tat > ticks) then return ticks end -- also unreadable values
  local latest = ticks + ARGV[a + 7] + ARGV[a + 9]
  if under ~= ARGV[a + 11] then -- another limit: carry over what is spent
    local T0, room0 = match(under, '^(%d+);(%d+)$')
    T0, room0 = tonumber(T0 or nil), tonumber(room0 or nil)
    if ARGV[a + 5] == '1' and room0 and room0 > 0 then
      tat = ticks + ceil((tat - ticks) / room0 * ARGV[a + 7])
    elseif T0 and T0 > 0 then
      tat = ticks + ceil((tat - ticks) / T0 * ARGV[a + 6])
    end
  elseif tat <= latest then
    return tat
  end
  -- Also after Redis's clock was set back, no key is locked out for longer than the limit allows.
  tat = min(tat, latest)
  arrival_save(key, a, tat)
  return tat
end

local function arrival_decide(key, a)
  local n, least, wait, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] * 32, ARGV[a + 4] + 0
  local T, room, most = ARGV[a + 6] + 0, ARGV[a + 7] + 0, ARGV[a + 8] + 0
  local tat = arrival_read(key, a)
  if debt ~= 0 then -- positive: add; negative: at least -debt
    local latest = max(tat, ticks + room + ARGV[a + 9])
    tat = debt > 0 and min(tat + debt * T, latest) or max(tat, min(ticks - debt * T, latest))
    arrival_save(key, a, tat)
  end
  local free = ticks + room - tat
  local give = min(n, most, floor(max(0, free + wait) / T))
  if give < least or n == 0 then
    local retry, need = -1, max(least, 1)
    if need <= most and (n == 0 or need * T <= room + wait) then
      retry = max(0, ceil((need * T - free - wait) / 32))
    end
    return n == 0 and 0 or -1, max(0, floor(free / T)), 0, retry, ceil((tat - ticks) / 32), now, 0
  end
  local cost = give * T
  local left, delay = max(0, floor((free - cost) / T)), max(0, ceil((cost - free) / 32))
  return give, left, delay, 0, ceil((tat + cost - ticks) / 32), now, 0, tat + cost
end

local function arrival_refund(key, a)
  local tat = arrival_read(key, a)
  if tat > ticks then arrival_save(key, a, max(ticks, tat - ARGV[a + 1] * ARGV[a + 6])) end
end
