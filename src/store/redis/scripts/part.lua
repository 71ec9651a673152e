-- Writes a member's part of a shared budget, if nobody has written since it was read.
--
-- KEYS[1]  the scope's table: v, its version; m and a member's number, that member's part
-- ARGV[1]  the version that was read
-- ARGV[2]  member
-- ARGV[3]  its part
-- ARGV[4]  how long the table is kept, in milliseconds
-- ARGV     members whose parts are over
-- Answer   1: written; 0: another member was first
if (redis.call('HGET', KEYS[1], 'v') or '0') ~= ARGV[1] then return 0 end
for i = 5, #ARGV do redis.call('HDEL', KEYS[1], 'm' .. ARGV[i]) end
redis.call('HSET', KEYS[1], 'v', string.format('%.0f', ARGV[1] + 1), 'm' .. ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
