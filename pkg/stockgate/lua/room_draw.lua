-- room_draw: stores the root of the draw, and then beacon and seed, unless it has them.
-- KEYS    as in room.lua
-- ARGV    root, beacon, seed or '' for both while the beacon is unknown, number of tickets in the tree
-- returns 'no_gate', 'no_room', 'not_closed' while early joining goes on, 'differs' if the room has another number of
--         early tickets, or see room_state() in room.lua
-- cost    O(n), n = admissions, see room_state()
if room('early') == '' then return 'not_closed' end
if room('early') ~= ARGV[4] then return 'differs' end
redis.call('HSETNX', ROOM, 'root', ARGV[1])
if ARGV[3] ~= '' and room('seed') == '' and room('root') == ARGV[1] then
  redis.call('HSET', ROOM, 'beacon', ARGV[2], 'seed', ARGV[3])
end
keep_room()
return room_state()
