-- Acquires a mailbox.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  member
-- ARGV[2]  how long the lease lasts, in microseconds
-- ARGV[3]  how long after its end it is remembered
-- ARGV[4]  1: leave a lease that has run out
-- Answer   {1, token, microseconds since it changed hands uncleanly (-1: not remembered), last place of the inbox, until}
--          or {0, microseconds until the other lease ends, until}
local base, member, ttl, memory = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_us()
local lease = lease_of(base)
local unclean = lease and tonumber(lease.unclean) or nil
if lease and lease.state == 'held' then
  if lease.member ~= member then
    if lease.till > now then return { 0, text(lease.till - now), text(lease.till) } end
    if ARGV[4] == '1' then return { 0, '0', text(lease.till) } end
  end
  -- Run out, or its owner asks again: nobody knows what the lost lease was used for.
  unclean = now
end
local token = text(math.max((lease and tonumber(lease.token) or 0) + 1, now))
redis.call('HSET', base .. ':lease', 'token', token, 'member', member, 'until', text(now + ttl), 'state', 'held',
  'unclean', unclean and text(unclean) or '', 'memory', text(memory))
redis.call('PEXPIRE', base .. ':lease', text(math.ceil((ttl + memory) / 1000)))
local ago = unclean and now - unclean or -1
if ago > memory then ago = -1 end
return { 1, token, text(ago), last_place(base), text(now + ttl) }
