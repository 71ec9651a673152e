-- Tries every command that the scripts and their callers use on keys, so that a right that is missing is known at the
-- start and not in the middle of a submission. Leaves nothing behind.
--
-- KEYS[1]  a name that no other key has, without its last part
-- ARGV[1]  the channel of words
-- Answer   what may not be done: names of commands, the channel after a &
local missing = {}
local function try(name, ...)
  local answer = redis.pcall(name, ...)
  local said = type(answer) == 'table' and answer.err or ''
  -- Redis 7.0 says the one, later ones the other.
  if string.find(said, 'user executing the script') or string.find(said, 'permission') then
    missing[#missing + 1] = string.find(said, 'channel') and '&' .. ARGV[1] or string.lower(name)
  end
end
local hash, sorted, text = KEYS[1] .. ':hash', KEYS[1] .. ':sorted', KEYS[1] .. ':text'
try('HSET', hash, 'a', '1')
try('PEXPIRE', hash, '1000')
try('HSETNX', hash, 'a', '1')
try('HGET', hash, 'a')
try('HMGET', hash, 'a')
try('HEXISTS', hash, 'a')
try('HLEN', hash)
try('HDEL', hash, 'a')
try('ZADD', sorted, '1', 'a')
try('PEXPIRE', sorted, '1000')
try('ZCARD', sorted)
try('ZCOUNT', sorted, '-inf', '+inf')
try('ZSCORE', sorted, 'a')
try('ZRANGE', sorted, '0', '0')
try('ZRANGEBYLEX', sorted, '-', '+')
try('ZRANGEBYSCORE', sorted, '-inf', '+inf')
try('ZUNIONSTORE', sorted, '1', sorted)
try('ZREMRANGEBYSCORE', sorted, '5', '6')
try('ZREM', sorted, 'a')
try('SET', text, '1', 'PX', '1000')
try('GET', text)
try('EXISTS', text)
try('PTTL', text)
try('TIME')
try('PUBLISH', ARGV[1], '')
return missing
