-- Shows that a member lives, and asks for the time, how many live, and whether the store may have forgotten something.
--
-- KEYS[1]  members, by their last call
-- KEYS[2]  which server this is: run, failover
-- ARGV[1]  member (empty: none)
-- ARGV[2]  how long a member counts, in microseconds
-- ARGV[3]  the run that the caller's connection leads to
-- ARGV[4]  the run it led to before (empty: none; a step: the caller has seen the clock step, or its own differs)
-- Answer   {now, members, microseconds since the last failover (-1: none)}
--
-- Another run took over, or what was kept here is gone though the caller has seen it: writes may have been lost.
local members, server = KEYS[1], KEYS[2]
local now = now_us()
local run = redis.call('HGET', server, 'run')
if (run and run ~= ARGV[3]) or (not run and ARGV[4] ~= '') or ARGV[4] == 'step' then
  redis.call('HSET', server, 'failover', text(now))
end
if run ~= ARGV[3] then redis.call('HSET', server, 'run', ARGV[3]) end
if ARGV[1] ~= '' then redis.call('ZADD', members, text(now), ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', members, '-inf', text(now - 3600000000))
local alive = redis.call('ZCOUNT', members, text(now - tonumber(ARGV[2])), '+inf')
local failover = redis.call('HGET', server, 'failover')
return { text(now), alive, failover and text(now - tonumber(failover)) or '-1' }
