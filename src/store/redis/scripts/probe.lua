-- Asks for the one probe of a shared scope.
--
-- KEYS[1]  the scope's probe
-- ARGV[1]  member
-- ARGV[2]  for how long, in milliseconds
-- Answer   -1: the caller has it; else after how many milliseconds the other's ends
local other = redis.call('GET', KEYS[1])
if other and other ~= ARGV[1] then return math.max(redis.call('PTTL', KEYS[1]), 0) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return -1
