-- Key names and functions that the scripts of a waiting room share. This file follows prelude.lua and precedes each of
-- them. It returns 'no_gate', or 'no_room' if the activity has no waiting room.
-- KEYS    as in prelude.lua, then:
local ROOM, TICKETS, LEAVES, ADMISSIONS = unpack(KEYS, 14, 17)
--
-- ROOM       hash  sequence = number of the last ticket; key = of the draw; early = number of early tickets, absent until
--                  early joining closes; root, beacon and seed of the draw, absent until they are computed; admitted =
--                  last place that may take paths; lapsed = last place that no longer may; fence = of the controller;
--                  usable = ms for which an admitted place could take paths so far; called = ms of the last room_admit
-- TICKETS    hash  user -> sequence|nonce
-- LEAVES     text  commitments of the early tickets, 32 bytes each: that of sequence number s at 32 * (s - 1). Redis
--                  fills what it has lost with zeros
-- ADMISSIONS zset  admitted -> value of usable at which it was reached, one a second for the latest ADMITTED_FOR, and one
--                  before
local OPENS, CLOSES = 600000, 60000 -- before the start
local ADMITTED_FOR = 60000
local TICK = 1000
local LEAF = 32

local gate = redis.call('HMGET', GATE, 'state', 'starts', 'ends', 'room')
if not gate[1] then return 'no_gate' end
local starts, ends, rate = tonumber(gate[2]), tonumber(gate[3]), tonumber(gate[4] or 0) or 0
if rate <= 0 then return 'no_room' end
local now = now_ms()

local function room(field) return redis.call('HGET', ROOM, field) or '' end
local function room_number(field) return tonumber(redis.call('HGET', ROOM, field) or 0) or 0 end

-- keep_room gives all keys of the room a TTL that ends a day after the activity.
local function keep_room()
  for i = 14, 17 do redis.call('PEXPIREAT', KEYS[i], int(ends + DAY)) end
end

-- move_on opens the room with this key, or closes early joining, when that is due and not done.
local function move_on(key)
  if now < starts - OPENS then return end
  if redis.call('HSETNX', ROOM, 'key', key) == 1 then keep_room() end
  if now >= starts - CLOSES then redis.call('HSETNX', ROOM, 'early', int(room_number('sequence'))) end
end

-- usable_now is usable, and the time since the last room_admit as far as the sale is open: at most TICK of it, since there
-- are no calls while Redis is unreachable.
local function usable_now()
  local usable, called = room_number('usable'), room_number('called')
  if gate[1] ~= 'open' or called == 0 then return usable end
  return usable + math.max(0, math.min(TICK, now - called))
end

-- raise_admitted keeps one admission for each second of usable time, that of the last places.
local function raise_admitted(to)
  local usable = room_number('usable')
  redis.call('HSET', ROOM, 'admitted', int(to))
  redis.call('ZREMRANGEBYSCORE', ADMISSIONS, int(usable - usable % 1000), '+inf')
  redis.call('ZADD', ADMISSIONS, int(usable), int(to))
  keep_room()
end

-- room_state returns the state of the room, as decodeRoom in room.go reads it: at its end usable by now, and ADMISSIONS
-- with their scores. O(admissions), at most 62.
local function room_state()
  local state = { int(now), gate[1], int(starts), int(ends), int(rate), room('sequence'), room('key'), room('early'),
    room('root'), room('beacon'), room('seed'), room('admitted'), room('lapsed') }
  state[#state + 1] = int(usable_now())
  for _, text in ipairs(redis.call('ZRANGE', ADMISSIONS, 0, -1, 'WITHSCORES')) do state[#state + 1] = text end
  return state
end
