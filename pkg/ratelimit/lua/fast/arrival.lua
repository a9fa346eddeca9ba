-- Grants all n permits at once, or refuses the request.
do
  local call, A, key = redis.call, ARGV, KEYS[1]
  local clock = call('TIME')
  local ticks = (clock[1] - 1767225600) * 32000000 + clock[2] * 32
  local v, tat = call('GET', key), ticks
  local T, room, n = A[2] + 0, A[3] + 0, tonumber(A[1])
  local under, waits = A[2] .. ';' .. A[3], n and n < 0
  if waits then n = -n end
  if v then
    local sub, cut = string.sub, #under
    tat = sub(v, -cut) == under and tonumber(sub(v, 1, -cut - 2))
    if tat and tat < ticks then tat = ticks end
  end
  if tat and n then
    local after, full = tat + n * T, ticks + room
    if after <= full then
      local ahead, format = after - ticks, string.format
      call('SET', key, format('%d;%s', after, under), 'PX', format('%d', ahead / 32000 + 2))
      return {n, (full - after) / T, 0, 0, (ahead + 31) / 32, tat / 32, 0}
    elseif not waits and n * T <= room and tat <= full then
      return {-1, (full - tat) / T, 0, (after - full + 31) / 32, (tat - ticks + 31) / 32, 0, 0}
    end
  end
end
