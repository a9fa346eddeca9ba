-- room_join: gives buyers their tickets, to each the one that they have or a new one.
-- KEYS    as in room.lua
-- ARGV    key for a room that is not open yet; then for each buyer: user, nonce of a new ticket, commitment of a new
--         ticket, sequence number of a ticket that a new one is to replace, or ''
-- returns 'no_gate', 'no_room', 'ended', 'not_open', or for each buyer the ticket as 'sequence|nonce'
-- cost    O(buyers)
if gate[1] == 'ended' or now >= ends then return 'ended' end
if now < starts - OPENS then return 'not_open' end
move_on(ARGV[1])
local early = room('early')
local sequence = room_number('sequence')
local users = every(4, 2)
local stored = redis.call('HMGET', TICKETS, unpack(users))
local given, tickets, leaves, out, from = {}, {}, {}, {}, sequence
for i, user in ipairs(users) do
  local nonce, commitment, replaced = ARGV[4 * i - 1], ARGV[4 * i], ARGV[4 * i + 1]
  local ticket = given[user] or stored[i] or ''
  local has = string.match(ticket, '^(%d+)|')
  if not has or has == replaced then
    sequence = sequence + 1
    ticket = int(sequence) .. '|' .. nonce
    given[user] = ticket
    tickets[#tickets + 1] = user
    tickets[#tickets + 1] = ticket
    if early == '' then leaves[#leaves + 1] = commitment end
  end
  out[i] = ticket
end
if #tickets > 0 then
  redis.call('HSET', TICKETS, unpack(tickets))
  if #leaves > 0 then redis.call('SETRANGE', LEAVES, int(LEAF * from), table.concat(leaves)) end
  redis.call('HSET', ROOM, 'sequence', int(sequence))
  keep_room()
end
return out
