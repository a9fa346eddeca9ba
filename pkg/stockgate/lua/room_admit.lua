-- room_admit: admits the next places, and lets those lapse whose time is over.
-- KEYS    as in room.lua
-- ARGV    fencing number of the controller, admitted as it was read, admitted to be
-- returns 'no_gate', 'no_room', 'fenced' if a later controller has called, 'not_started', 'no_draw' while early tickets
--         have no places, or see room_state() in room.lua
-- A call that finds another value of admitted than was read admits none: a repeated call admits no place twice.
-- cost    O(n), n = admissions, see room_state()
local fence = room_number('fence')
if tonumber(ARGV[1]) < fence then return 'fenced' end
if now < starts then return 'not_started' end
local early = room('early')
if early == '' or early ~= '0' and room('seed') == '' then return 'no_draw' end
if tonumber(ARGV[1]) > fence then redis.call('HSET', ROOM, 'fence', ARGV[1]) end

local admitted, usable = room_number('admitted'), usable_now()
redis.call('HSET', ROOM, 'called', int(now), 'usable', int(usable))
local to = math.min(tonumber(ARGV[3]), room_number('sequence'))
if admitted == tonumber(ARGV[2]) and to > admitted then raise_admitted(to) end

-- The last place that was admitted ADMITTED_FOR ago has lapsed. Older admissions are removed, but not this one, so that
-- the set is never without the value that lapses next.
local over = redis.call('ZREVRANGEBYSCORE', ADMISSIONS, int(usable - ADMITTED_FOR), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
if over[1] then
  if tonumber(over[1]) > room_number('lapsed') then redis.call('HSET', ROOM, 'lapsed', over[1]) end
  redis.call('ZREMRANGEBYSCORE', ADMISSIONS, '-inf', '(' .. over[2])
end
return room_state()
