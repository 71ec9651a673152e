-- Gives a mailbox back cleanly. A lease that is not the latest is passed over.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  token
-- ARGV[2]  channel of news
-- ARGV[3]  the word that tells it
-- Answer   1, or 0
local base = KEYS[1]
local lease = lease_of(base)
if not lease or lease.token ~= ARGV[1] then return 0 end
if lease.state ~= 'released' then
  redis.call('HSET', base .. ':lease', 'state', 'released')
  redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return 1
