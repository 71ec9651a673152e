-- Stands before every script that touches notes: a hash of `at|until|body` by kind and name, and an index by end.
local function forget_notes(base, now)
  for _ = 1, 10 do
    local over = redis.call('ZRANGEBYSCORE', base .. ':until', '-inf', text(now), 'LIMIT', 0, 1000)
    if #over == 0 then return end
    redis.call('HDEL', base .. ':notes', unpack(over))
    redis.call('ZREM', base .. ':until', unpack(over))
  end
end

local function keep_note(base, field, till, value)
  redis.call('HSET', base .. ':notes', field, value)
  redis.call('ZADD', base .. ':until', till, field)
end
