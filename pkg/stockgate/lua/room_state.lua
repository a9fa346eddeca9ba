-- room_state: the state of a waiting room. Opens it and closes early joining when that is due.
-- KEYS    as in room.lua
-- ARGV    key for a room that is not open yet; then what the caller has read before, '' or 0 if unknown: early, root,
--         beacon, seed, sequence, admitted, lapsed. It repairs a room that Redis has lost, whole or in part.
-- returns 'no_gate', 'no_room', or see room_state() in room.lua
-- cost    O(n), n = admissions, see room_state(); it writes only when something is to be changed
if now >= starts - OPENS and now < ends then
  -- No number ever falls, so a caller that has read a higher one shows that Redis has lost the room. Another caller may
  -- have opened it again since, with another key and without early tickets. What it published since does not change.
  local sequence, admitted, lapsed = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  local function lost(field, known) return known ~= '' and room(field) == '' end
  if sequence > room_number('sequence') or admitted > room_number('admitted') or lapsed > room_number('lapsed')
    or lost('early', ARGV[2]) or lost('root', ARGV[3]) or lost('seed', ARGV[5]) then
    if room('root') == '' then
      redis.call('HSET', ROOM, 'key', ARGV[1])
      if ARGV[2] ~= '' then redis.call('HSET', ROOM, 'early', ARGV[2]) end
      if ARGV[3] ~= '' then redis.call('HSET', ROOM, 'root', ARGV[3]) end
    end
    local same = room('key') == ARGV[1] and room('root') == ARGV[3]
    if same and room('seed') == '' and ARGV[5] ~= '' then redis.call('HSET', ROOM, 'beacon', ARGV[4], 'seed', ARGV[5]) end
    redis.call('HSET', ROOM, 'sequence', int(math.max(sequence, room_number('sequence'))),
      'lapsed', int(math.max(lapsed, room_number('lapsed'))))
    if admitted > room_number('admitted') then raise_admitted(admitted) end
    keep_room()
  end
  move_on(ARGV[1])
end
return room_state()
