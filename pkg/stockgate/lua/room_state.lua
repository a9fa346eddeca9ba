-- room_state: the state of a waiting room. Opens it and closes early joining when that is due.
-- KEYS    as in room.lua
-- ARGV    key for a room that is not open yet; then what the caller has read before, '' or 0 if unknown: early, root,
--         beacon, seed, sequence, admitted. It repairs a room that Redis has lost.
-- returns 'no_gate', 'no_room', or see room_state() in room.lua
-- cost    O(1); it writes only when something is to be changed
if now >= starts - OPENS and now < ends then
  -- Neither number ever falls, so a caller that has read a higher one shows that Redis has lost the room. Another caller
  -- may have opened it again since, with another key and without early tickets.
  local sequence, admitted = tonumber(ARGV[6]), tonumber(ARGV[7])
  if sequence > room_number('sequence') or admitted > room_number('admitted') then
    redis.call('HSET', ROOM, 'key', ARGV[1], 'sequence', int(math.max(sequence, room_number('sequence'))))
    if ARGV[2] ~= '' then redis.call('HSET', ROOM, 'early', ARGV[2]) end
    if ARGV[3] ~= '' then redis.call('HSET', ROOM, 'root', ARGV[3]) end
    if ARGV[5] ~= '' then redis.call('HSET', ROOM, 'beacon', ARGV[4], 'seed', ARGV[5]) end
    if admitted > room_number('admitted') then raise_admitted(admitted) end
    keep_room()
  end
  move_on(ARGV[1])
end
return room_state()
