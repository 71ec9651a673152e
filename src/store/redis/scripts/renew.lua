-- Prolongs a lease. One that has run out is kept if its token is the latest: nobody else has owned the mailbox since.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  token
-- ARGV[2]  how long the lease lasts, in microseconds
-- ARGV[3]  how long after its end it is remembered
-- Answer   {1, last place of the inbox, until}, or {0}
local base, ttl, memory = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_us()
local lease = lease_of(base)
if not lease or lease.state ~= 'held' or lease.token ~= ARGV[1] then return { 0 } end
redis.call('HSET', base .. ':lease', 'until', text(now + ttl))
redis.call('PEXPIRE', base .. ':lease', text(math.ceil((ttl + memory) / 1000)))
return { 1, last_place(base), text(now + ttl) }
