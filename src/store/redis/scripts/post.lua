-- Posts orders to a mailbox. One that is there is not posted twice; its owner is told all the same.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  channel of news
-- ARGV[2]  the word that tells it
-- ARGV     three per order: id, until (Redis TIME), order
-- Answer   how many were posted
local base = KEYS[1]
local now, posted = now_us(), 0
for i = 3, #ARGV, 3 do
  if redis.call('HSETNX', base .. ':orders', ARGV[i], ARGV[i + 1] .. '|' .. ARGV[i + 2]) == 1 then
    post_letter(base, now, 'o:' .. ARGV[i], ARGV[1], ARGV[2])
    posted = posted + 1
  else
    redis.call('PUBLISH', ARGV[1], ARGV[2])
  end
end
redis.call('PEXPIRE', base .. ':orders', 604800000)
return posted
