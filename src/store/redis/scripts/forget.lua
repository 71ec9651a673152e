-- Removes operations, whose ids have been taken back before.
--
-- KEYS[1]  base of the mailbox
-- ARGV     keys
-- Answer   operations that are left to be forgotten one day
local base = KEYS[1]
for i = 1, #ARGV do
  local key = ARGV[i]
  local row = redis.call('HGET', base .. ':rows', key)
  if row then
    local r = parse(row)
    redis.call('ZREM', queue(base, r.state, r.lane), key)
    redis.call('HDEL', base .. ':rows', key)
    redis.call('HDEL', base .. ':mail', key)
  end
  redis.call('ZREM', base .. ':end', key)
  redis.call('ZREM', base .. ':live', key)
  redis.call('ZREM', base .. ':due', key)
end
return redis.call('ZCARD', base .. ':end')
