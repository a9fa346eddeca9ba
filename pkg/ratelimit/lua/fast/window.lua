-- Grants all n permits in the current window.
do
  local call, A, key, format, sub = redis.call, ARGV, KEYS[1], string.format, string.sub
  local clock = call('TIME')
  local period, rate, unix = A[2] + 0, A[3] + 0, clock[1] * 1000000 + clock[2]
  local into = unix % period
  local under = format('%d;%s;%s', (unix - into) / period, A[2], A[3])
  local v, count, cut = call('GET', key), 0, #under
  if v then count = sub(v, -cut) == under and tonumber(sub(v, 1, -cut - 2)) end
  local n = tonumber(A[1])
  if count and n and count + n <= rate then
    local ends = period - into
    call('SET', key, format('%d;%s', count + n, under), 'PX', format('%d', ends / 1000 + 2))
    return {n, rate - count - n, 0, 0, ends, unix - into - 1767225600000000, 0}
  end
end
