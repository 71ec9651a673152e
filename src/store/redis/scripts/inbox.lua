-- What is posted to a mailbox, in order. Letters that were read are forgotten, by name: after a failover places are given
-- out anew. So are orders whose time is up.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  token: for one that is not the latest the answer is empty
-- ARGV[2]  after which place to read: 0, or the last one of an answer before
-- ARGV[3]  how many at most
-- ARGV     letters that were read, as they lie in the inbox
-- Answer   the last place looked at, or 0 at the end; then per letter: place, a (operation) or o (order), key or id, row or order
local base = KEYS[1]
local now = now_us()
local lease = lease_of(base)
if not lease or lease.token ~= ARGV[1] then return { '0' } end
local inbox, orders = base .. ':inbox', base .. ':orders'
for i = 4, #ARGV do
  local letter = ARGV[i]
  redis.call('ZREM', inbox, letter)
  if string.sub(letter, 1, 1) == 'o' then redis.call('HDEL', orders, string.sub(letter, 3)) end
end
local found = redis.call('ZRANGEBYSCORE', inbox, '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local answers = { #found / 2 < tonumber(ARGV[3]) and '0' or found[#found] }
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
