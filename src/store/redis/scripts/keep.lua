-- Keeps and forgets notes, in order.
--
-- KEYS[1]  base of the mailbox, or of what belongs to none
-- ARGV[1]  the latest instant its caller has named
-- ARGV     three per change: field, end, value (empty end: forget it)
-- Answer   notes that are there now
local base = KEYS[1]
forget_notes(base, math.max(now_us(), tonumber(ARGV[1])))
for i = 2, #ARGV, 3 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', base .. ':notes', ARGV[i])
    redis.call('ZREM', base .. ':until', ARGV[i])
  else
    keep_note(base, ARGV[i], ARGV[i + 1], ARGV[i + 2])
  end
end
return redis.call('HLEN', base .. ':notes')
