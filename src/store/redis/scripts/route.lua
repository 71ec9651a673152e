-- Remembers which mailbox an operation's key belongs to.
--
-- KEYS[1]  a bucket of keys (64 of them: small hashes are stored without overhead)
-- ARGV     two per key: key, mailbox
-- Answer   per key an empty text, or the mailbox that has it already
local answers = {}
for i = 1, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) == 1 then
    answers[#answers + 1] = ''
  else
    answers[#answers + 1] = redis.call('HGET', KEYS[1], ARGV[i])
  end
end
return answers
