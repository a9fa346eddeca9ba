-- Grants all n permits if no bucket has expired.
do
  local call, A, key, tonumber = redis.call, ARGV, KEYS[1], tonumber
  local clock = call('TIME')
  local width, rate, unix = A[2] + 0, A[3] + 0, clock[1] * 1000000 + clock[2]
  local into = unix % width
  local at, sum, under = (unix - into) / width, 0, nil
  local oldest, all = at - A[4], call('HGETALL', key)
  for i = 1, #all, 2 do
    if all[i] == 'p' then
      under = all[i + 1]
    else
      local bucket, count = tonumber(all[i]), tonumber(all[i + 1])
      if not (bucket and count) or bucket > at or bucket < oldest then
        sum = 1 / 0
        break
      end
      sum = sum + count
    end
  end
  local n = tonumber(A[1])
  if n and sum + n <= rate and under == A[2] .. ';' .. A[3] .. ';' .. A[4] then
    local format, lasts = string.format, (A[4] + 1) * width - into
    call('HINCRBY', key, format('%d', at), A[1])
    call('PEXPIRE', key, format('%d', lasts / 1000 + 2))
    return {n, rate - sum - n, 0, 0, lasts, unix - into - 1767225600000000, 0}
  end
end
