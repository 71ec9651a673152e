-- Takes ids back, from whom they were given to and from nobody else.
--
-- KEYS[1]  base of a shard of ids
-- ARGV     two per id: id, and who had it: key|mailbox, whatever the generation
-- Answer   how many were taken back
local ids, pending = KEYS[1] .. ':ids', KEYS[1] .. ':pending'
local released = 0
for i = 1, #ARGV, 2 do
  local found = redis.call('HGET', ids, ARGV[i])
  if found and string.match(found, '^%x+|(.*)$') == ARGV[i + 1] then
    redis.call('HDEL', ids, ARGV[i])
    redis.call('ZREM', pending, ARGV[i])
    released = released + 1
  end
end
return released
