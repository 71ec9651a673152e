-- How much room a mailbox has, once the notes that are over are gone.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  the latest instant its caller has named
-- ARGV[2…] fields of notes that need room
-- Answer   operations that are live or quarantined, notes, and how many of the fields are not there yet
local base = KEYS[1]
forget_notes(base, math.max(now_us(), tonumber(ARGV[1])))
local fresh, seen = 0, {}
for i = 2, #ARGV do
  if not seen[ARGV[i]] and redis.call('HEXISTS', base .. ':notes', ARGV[i]) == 0 then fresh = fresh + 1 end
  seen[ARGV[i]] = true
end
local held = redis.call('ZCARD', base .. ':live') + redis.call('ZCARD', queue(base, 9, 0))
  + redis.call('ZCARD', queue(base, 9, 1))
return { held, redis.call('HLEN', base .. ':notes'), fresh }
