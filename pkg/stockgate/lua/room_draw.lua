-- room_draw: stores root, beacon and seed of the draw, unless it has them.
-- KEYS    as in room.lua
-- ARGV    root, beacon, seed, number of tickets in the tree
-- returns 'no_gate', 'no_room', 'not_closed' while early joining goes on, 'differs' if the room has another number of
--         early tickets, or see room_state() in room.lua
-- cost    O(1)
if room('early') == '' then return 'not_closed' end
if room('early') ~= ARGV[4] then return 'differs' end
if room('root') == '' then
  redis.call('HSET', ROOM, 'root', ARGV[1], 'beacon', ARGV[2], 'seed', ARGV[3])
  keep_room()
end
return room_state()
