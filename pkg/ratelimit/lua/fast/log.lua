-- Grants one permit if no entry has expired.
do
  local call, A, key = redis.call, ARGV, KEYS[1]
  local clock = call('TIME')
  local now = (clock[1] - 1767225600) * 1000000 + clock[2]
  local period, rate, len = A[2] + 0, A[3] + 0, call('LLEN', key)
  local t, first = now, now
  if len > 0 then t, first = tonumber(call('LINDEX', key, -1) or nil), tonumber(call('LINDEX', key, 0) or nil) end
  if t and first and A[1] == '1' and len < rate and t <= now + period then
    if t < now then t = now end
    if first > t - period then
      local format, lasts = string.format, t + period - now
      call('RPUSH', key, format('%d', t))
      call('PEXPIRE', key, format('%d', lasts / 1000 + 2))
      return {1, rate - len - 1, 0, 0, lasts, t, 0}
    end
  end
end
