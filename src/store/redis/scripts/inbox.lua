-- What was posted to a mailbox after a place, in order. What was posted up to it is forgotten, and orders whose time is up.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  token: for one that is not the latest the answer is empty
-- ARGV[2]  place
-- ARGV[3]  after which place to read: the same, or the last one of an answer before
-- ARGV[4]  how many at most
-- Answer   the last place looked at, or 0 at the end; then per letter: place, a (operation) or o (order), key or id, row or order
local base = KEYS[1]
local now = now_us()
local lease = lease_of(base)
if not lease or lease.token ~= ARGV[1] then return { '0' } end
local inbox, orders = base .. ':inbox', base .. ':orders'
for _, letter in ipairs(redis.call('ZRANGEBYSCORE', inbox, '-inf', ARGV[2], 'LIMIT', 0, 1000)) do
  redis.call('ZREM', inbox, letter)
  if string.sub(letter, 1, 1) == 'o' then redis.call('HDEL', orders, string.sub(letter, 3)) end
end
local found = redis.call('ZRANGEBYSCORE', inbox, '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
local answers = { #found / 2 < tonumber(ARGV[4]) and '0' or found[#found] }
for i = 1, #found, 2 do
  local kind, name = string.sub(found[i], 1, 1), string.sub(found[i], 3)
  local body, keeps
  if kind == 'a' then
    body = redis.call('HGET', base .. ':rows', name)
    keeps = body
  else
    local order = redis.call('HGET', orders, name)
    local till
    if order then till, body = string.match(order, '^(%d+)|(.*)$') end
    keeps = till and tonumber(till) > now
  end
  if keeps then
    answers[#answers + 1] = { found[i + 1], kind, name, body }
  else
    redis.call('ZREM', inbox, found[i])
    if kind == 'o' then redis.call('HDEL', orders, name) end
  end
end
return answers
