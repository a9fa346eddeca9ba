-- room_state: the state of a waiting room. Opens it and closes early joining when that is due.
-- KEYS    as in room.lua
-- ARGV    key for a room that is not open yet; then what the caller has read before, '' or 0 if unknown: early, root,
--         beacon, seed, sequence, admitted. It repairs a room that Redis has lost.
-- returns 'no_gate', 'no_room', or see room_state() in room.lua
-- cost    O(1); it writes only when something is to be changed
if now >= starts - OPENS and now < ends then
  if ARGV[2] ~= '' then redis.call('HSETNX', ROOM, 'early', ARGV[2]) end
  if ARGV[3] ~= '' then redis.call('HSETNX', ROOM, 'root', ARGV[3]) end
  if ARGV[5] ~= '' and room('seed') == '' then redis.call('HSET', ROOM, 'beacon', ARGV[4], 'seed', ARGV[5]) end
  if tonumber(ARGV[6]) > room_number('sequence') then redis.call('HSET', ROOM, 'sequence', ARGV[6]) end
  if tonumber(ARGV[7]) > room_number('admitted') then raise_admitted(tonumber(ARGV[7])) end
  move_on(ARGV[1])
end
return room_state()
