-- TokenBucket, GCRA, LeakyBucket, LeakyQueue. The value is a string "tat;T;room": the theoretical arrival time, and
-- the limit under which it was written. All times here are ticks of 1/32 microsecond. Arguments: T per permit, room
-- (the burst tolerance), largest grant, longest reservation ahead, "", "T;room". Cost: GET, and SET if granted. The
-- key expires when the bucket is full. What a fleet grants without Redis may be more than can be reserved. Then the value
-- is "tat;T;room;owed", with how far ahead it was when it was reported; the next grant shows that it is not any more.
local ticks = now * 32

local function arrival_save(key, a, tat, owed)
  if tat > ticks then
    local under = ARGV[a + 11]
    if owed and owed > 0 then under = format('%s;%d', under, owed) end
    call('SET', key, format('%d;%s', tat, under), 'PX', format('%d', (tat - ticks) / 32000 + 2))
  else
    call('DEL', key)
  end
end

local function arrival_read(key, a)
  local v = call('GET', key)
  if not v then return ticks, 0 end
  local tat0, under, owed = match(v, '^(%d+);(%d+;%d+);?(%d*)$')
  local tat = tonumber(tat0 or nil)
  if not (tat and tat > ticks) then return ticks, 0 end -- also unreadable values
  owed = tonumber(owed) or 0
  local scale = 1
  if under ~= ARGV[a + 11] then -- another limit: carry over what is spent
    local T0, room0 = match(under, '^(%d+);(%d+)$')
    if ARGV[a + 5] == '1' and room0 + 0 > 0 then
      scale = ARGV[a + 7] / room0
    elseif T0 + 0 > 0 then
      scale = ARGV[a + 6] / T0
    end
  end
  owed = ceil(owed * scale)
  local latest = ticks + ARGV[a + 7] + max(ARGV[a + 9] + 0, owed)
  if scale == 1 and under == ARGV[a + 11] and tat <= latest then return tat, owed end
  -- Also after Redis's clock was set back, no key is locked out for longer than the limit allows.
  tat = min(ticks + ceil((tat - ticks) * scale), latest)
  arrival_save(key, a, tat, owed)
  return tat, owed
end

local function arrival_decide(key, a)
  local n, least, wait, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] * 32, ARGV[a + 4] + 0
  local T, room, most = ARGV[a + 6] + 0, ARGV[a + 7] + 0, ARGV[a + 8] + 0
  local tat, owed = arrival_read(key, a)
  if debt ~= 0 then -- positive: add; negative: at least -debt
    tat = debt > 0 and tat + debt * T or max(tat, ticks - debt * T)
    if tat - ticks - room > ARGV[a + 9] + 0 then owed = max(owed, tat - ticks - room) end
    arrival_save(key, a, tat, owed)
  end
  local free = ticks + room - tat
  local give = min(n, most, floor(max(0, free + wait) / T))
  if give < least or n == 0 then
    local retry, need = -1, max(least, 1)
    if need <= most and (n == 0 or need * T <= room + wait) then
      retry = max(0, ceil((need * T - free - wait) / 32))
    end
    return n == 0 and 0 or -1, max(0, floor(free / T)), 0, retry, ceil((tat - ticks) / 32), 0, 0
  end
  local cost = give * T
  local left, delay = max(0, floor((free - cost) / T)), max(0, ceil((cost - free) / 32))
  return give, left, delay, 0, ceil((tat + cost - ticks) / 32), floor(tat / 32), 0, tat + cost
end

local function arrival_refund(key, a)
  local tat, owed = arrival_read(key, a)
  local unearned = ARGV[a + 1] * ARGV[a + 6] - max(0, ticks - ARGV[a + 2] * 32)
  if tat > ticks and unearned > 0 then arrival_save(key, a, max(ticks, tat - unearned), owed) end
end
