-- Operations that have ended and are due to be forgotten, oldest first. They stay until their ids have been taken back;
-- attempts and notes whose time is over go here.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  how many may be kept
-- ARGV[2]  how long they are kept, in microseconds
-- ARGV[3]  how many to answer with, at most
-- ARGV[4]  how long attempts are kept, in microseconds
-- Answer   two per operation: key, row
local base = KEYS[1]
local ended = base .. ':end'
local surplus = redis.call('ZCARD', ended) - tonumber(ARGV[1])
local now = now_us()
local cutoff = now - tonumber(ARGV[2])
forget_attempts(base, now - tonumber(ARGV[4]), 1000)
forget_notes(base, now)
local oldest = redis.call('ZRANGE', ended, 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
local answers = {}
for i = 1, #oldest, 2 do
  if surplus <= 0 and tonumber(oldest[i + 1]) >= cutoff then break end
  surplus = surplus - 1
  answers[#answers + 1] = oldest[i]
  answers[#answers + 1] = redis.call('HGET', base .. ':rows', oldest[i]) or ''
end
return answers
