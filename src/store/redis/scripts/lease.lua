-- Stands before every script that touches leases: a hash `lease` of token, member, until, state (held, released), unclean
-- (when the mailbox last changed hands without having been released; empty: not remembered) and memory. It goes when
-- nothing in it counts any more. Instants are microseconds of Redis TIME.
local function lease_of(base)
  local found = redis.call('HMGET', base .. ':lease', 'token', 'member', 'until', 'state', 'unclean')
  if not found[1] then return nil end
  return { token = found[1], member = found[2], till = tonumber(found[3]), state = found[4], unclean = found[5] }
end

local function is_owned(lease, now)
  return lease ~= nil and lease.state == 'held' and lease.till > now
end

-- Whether its owner may renew it, run out or not.
local function is_remembered(lease)
  return lease ~= nil and lease.state == 'held'
end

-- Whether a token is the mailbox's latest and its time is not up.
local function holds(lease, token, now)
  return is_owned(lease, now) and lease.token == token
end

-- Puts something into the inbox. Places rise with time, so that they rise after anything was forgotten too.
local function post_letter(base, now, letter, channel, word)
  local last = tonumber(redis.call('GET', base .. ':place') or '0')
  local place = text(math.max(last + 1, now))
  redis.call('SET', base .. ':place', place, 'PX', 604800000)
  redis.call('ZADD', base .. ':inbox', place, letter)
  redis.call('PEXPIRE', base .. ':inbox', 604800000)
  redis.call('PUBLISH', channel, word)
end

local function last_place(base)
  return redis.call('GET', base .. ':place') or '0'
end
