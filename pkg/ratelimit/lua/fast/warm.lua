-- Grants all n permits at once, or refuses the request.
do
  local call, A, key = redis.call, ARGV, KEYS[1]
  local clock = call('TIME')
  local now, v = (clock[1] - 1767225600) * 1000000 + clock[2], call('GET', key)
  local stable, most, warmup, n = A[2] + 0, A[3] + 0, A[4] + 0, tonumber(A[1])
  local cold, threshold = stable * A[5], 0.5 * warmup / stable
  local full = threshold + 2 * warmup / (stable + cold)
  local cooldown, room, due, stored = warmup / full, (most - 1) * stable, now, full
  local waits = n and n < 0
  if waits then n = -n end
  if v then
    local due0, stored0, under = string.match(v, '^(%d+);([%d.e+-]+);(.*)$')
    due, stored = tonumber(due0), under == A[2] and tonumber(stored0)
    if due and stored and now > due then
      stored, due = stored + (now - due) / cooldown, now
    end
    if stored and stored > full then stored = full end
  end
  local free = due and now + room - due
  if n and n <= most and stored and free and stored >= 0 and free >= -cold * most then
    local ceil, slope = math.ceil, (cold - stable) / (full - threshold)
    local function cost(have, want) -- the area under the curve
      local k, sum = have - threshold, 0
      if k > 0 and want > 0 then
        local above = k
        if k > want then k = want end
        sum = k * (2 * stable + slope * (2 * above - k)) / 2
        want = want - k
      end
      return sum + want * stable
    end
    local before, give, debit, retry = n > 1 and ceil(cost(stored, n - 1)) or 0, -1, 0, 0
    if before <= free then
      give, debit = n, ceil(cost(stored, n))
      if debit < before + ceil(stable) then debit = before + ceil(stable) end
      free, due, stored = free - debit, due + debit, stored > n and stored - n or 0
    else
      retry = ceil(before - free)
    end
    local left = 0
    if free >= 0 then -- an estimate, corrected in steps of one
      local k = stored > threshold and stored - threshold or 0
      local dear = stable + slope * k
      local all = k * (stable + dear) / 2
      if free < all then
        left = 2 * free / (dear + (dear * dear - 2 * slope * free) ^ 0.5)
      else
        left = k + (free - all) / stable
      end
      left = left - left % 1 + 1
      if left > most then left = most end
      while left > 1 and ceil(cost(stored, left - 1)) > free do left = left - 1 end
      while left < most and ceil(cost(stored, left)) <= free do left = left + 1 end
    end
    local reset = due - now + ceil((full - stored) * cooldown)
    if give > 0 then
      local format = string.format
      call('SET', key, format('%d;%.17g;%s', due, stored, A[2]), 'PX', format('%d', reset / 1000 + 2))
      return {give, left, 0, 0, reset, now, debit}
    elseif not waits and before <= room then
      return {-1, left, 0, retry, reset, now, 0}
    end
  end
end
