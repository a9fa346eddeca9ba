-- TokenBucket, GCRA, LeakyBucket, LeakyQueue. One string "tat;T;room": the theoretical arrival time, and the limit it was
-- written under. Numbers: T per permit, room, most at once, longest reservation ahead, "", "T;room".
-- Cost: GET, and SET if granted. The key expires when it says no more than no key.
local function arrival_keep(key, a, tat)
  if tat > now then
    call('SET', key, format('%.5f;%s', tat, ARGV[a + 11]), 'PX', ceil((tat - now) / 1000) + 1)
  else
    call('DEL', key)
  end
end

local function arrival_read(key, a)
  local v = call('GET', key)
  if not v then return now end
  local cut = find(v, ';', 1, true)
  local tat = tonumber(cut and sub(v, 1, cut - 1) or nil)
  if not (tat and tat > now) then return now end -- also what cannot be read
  local T, room = tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7])
  if sub(v, cut + 1) ~= ARGV[a + 11] then -- another limit: carry over what is spent
    local T0, room0 = match(v, '^[^;]*;([%d.]+);([%d.]+)$')
    T0, room0 = tonumber(T0 or nil), tonumber(room0 or nil)
    if ARGV[a + 5] == '1' and room0 and room0 > 0 then
      tat = now + ceil((tat - now) / room0 * room * 32) / 32
    elseif T0 and T0 > 0 then
      tat = now + ceil((tat - now) / T0 * T * 32) / 32
    end
    tat = min(tat, now + room + ARGV[a + 9])
    arrival_keep(key, a, tat)
  elseif tat > now + room + ARGV[a + 9] then
    -- Redis's clock was set back: nobody is locked out for longer than the limit can mean.
    tat = now + room + ARGV[a + 9]
    arrival_keep(key, a, tat)
  end
  return tat
end

local function arrival_look(key, a)
  local n, least, wait, debt = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0
  local T, room, most = ARGV[a + 6] + 0, ARGV[a + 7] + 0, ARGV[a + 8] + 0
  local tat = arrival_read(key, a)
  if debt ~= 0 then
    local latest = max(tat, now + room + ARGV[a + 9])
    tat = debt > 0 and min(tat + debt * T, latest) or max(tat, min(now - debt * T, latest))
    arrival_keep(key, a, tat)
  end
  local free = now + room - tat
  local left = max(0, floor(free / T))
  local give = min(n, most, floor(max(0, free + wait) / T))
  if give < least or n == 0 then
    local retry, need = -1, max(least, 1)
    if need <= most and (n == 0 or need * T <= room + wait) then retry = max(0, ceil(need * T - free - wait)) end
    return n == 0 and 0 or -1, left, 0, retry, ceil(tat - now), now, 0
  end
  local cost = give * T
  return give, max(0, floor((free - cost) / T)), max(0, ceil(cost - free)), 0, ceil(tat + cost - now), now, 0, tat + cost
end

local function arrival_undo(key, a)
  local tat = arrival_read(key, a)
  if tat > now then arrival_keep(key, a, max(now, tat - ARGV[a + 1] * ARGV[a + 6])) end
end
