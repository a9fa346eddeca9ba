-- pauses: reads the pauses of a user and an address, and begins them for an answer.
-- KEYS    number of wrong answers of the user, pause of the user, then the same of the address, if that is known
-- ARGV    1 to begin the pauses, 0 to read them; then the pause in ms after 0, 1, ... wrong answers
-- returns ms for which the user has to wait, 0 for none; number of wrong answers of the user; of the address
-- cost    O(1)
local function wrong(i) return KEYS[i] and tonumber(redis.call('GET', KEYS[i]) or 0) or 0 end
local function left(i) return math.max(0, redis.call('PTTL', KEYS[i])) end
local function begin(i, before)
  redis.call('SET', KEYS[i], 1, 'PX', ARGV[math.min(before + 2, #ARGV)])
end

local user, address = wrong(1), wrong(3)
local again = KEYS[3] and user > 0 -- the pause of an address holds for users who were wrong
local wait = left(2)
if again then wait = math.max(wait, left(4)) end
if wait == 0 and ARGV[1] == '1' then
  begin(2, user)
  if again then begin(4, address) end
end
return { wait, user, address }
