-- Grants all of n in the window that runs.
do
  local call, A, key, format, sub = redis.call, ARGV, KEYS[1], string.format, string.sub
  local clock = call('TIME')
  local period, unix = A[6] + 0, clock[1] * 1000000 + clock[2]
  local into = unix % period
  local under = format('%d;%s', (unix - into) / period, A[11])
  local v, count, cut = call('GET', key), 0, #under
  if v then count = sub(v, -cut) == under and tonumber(sub(v, 1, -cut - 2)) end
  local n = A[1] + 0
  if count and A[4] == '0' and n > 0 and count + n <= A[7] + 0 then
    local ends = period - into
    call('SET', key, format('%d;%s', count + n, under), 'PX', format('%d', ends / 1000 + 2))
    return {n, A[7] - count - n, 0, 0, ends, unix - into - 1767225600000000, 0}
  end
end
