-- Stands before every script that touches rows.
--
-- A row is text: twelve numbers with bars between them, then three lines of JSON (provider's id, a person's words,
-- tenant; each may be empty), then what never changes. Only its first line is taken apart here.
--
--   state|changed_at|generation|said_at|next_at|attempts|numbers|status|lane|not_before|deadline|fingerprint
--
-- Instants are microseconds of Redis TIME; 9007199254740991 is never. said_at is changed_at by the clock of the process
-- that said it, which tells a repetition from news exactly, however its idea of Redis TIME has moved since.
-- A mark (!) behind the status: it has ended, or was set aside, and may have been sent.
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Lua prints large numbers with an exponent unless told not to.
local function text(number)
  return string.format('%.0f', number)
end

local function parse(row)
  local r = {}
  r.state, r.changed, r.by, r.said, r.next, r.attempts, r.numbers, r.status, r.lane, r.from, r.deadline, r.print,
    r.provider, r.order, r.tenant, r.rest = string.match(row, '^(%d)|(%d+)|(%x+)|(%d+)|(%d*)|(%d+)|(%d+)|(%d*!?)|(%d)'
    .. '|(%d+)|(%d+)|(%x+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  return r
end

local function pack(r)
  return table.concat({ r.state, r.changed, r.by, r.said, r.next, r.attempts, r.numbers, r.status, r.lane, r.from,
    r.deadline, r.print }, '|') .. '\n' .. r.provider .. '\n' .. r.order .. '\n' .. r.tenant .. '\n' .. r.rest
end

-- Keys of one state and lane, in order: all have score 0, so they lie in order of their text.
local function queue(base, state, lane)
  return base .. ':q:' .. state .. ':' .. lane
end

local function is_live(state)
  return tonumber(state) <= 4
end

-- Nobody will send it any more. A quarantined one (9) may be released.
local function is_over(state)
  local number = tonumber(state)
  return number >= 5 and number <= 8
end

-- Puts a row under its state in every index, and takes it out of those of the state it had.
local function place(base, key, r, before)
  if before then
    redis.call('ZREM', queue(base, before, r.lane), key)
    if before == '0' then redis.call('ZREM', base .. ':due', key) end
    if is_live(before) and not is_live(r.state) then redis.call('ZREM', base .. ':live', key) end
    if is_over(before) then redis.call('ZREM', base .. ':end', key) end
  end
  redis.call('ZADD', queue(base, r.state, r.lane), 0, key)
  if r.state == '0' then redis.call('ZADD', base .. ':due', r.from, key) end
  if is_live(r.state) and not (before and is_live(before)) then redis.call('ZADD', base .. ':live', 0, key) end
  if is_over(r.state) then redis.call('ZADD', base .. ':end', r.changed, key) end
end

-- Attempts that were claimed before `cutoff`, at most `count` of them.
local function forget_attempts(base, cutoff, count)
  local old = redis.call('ZRANGEBYSCORE', base .. ':tried', '-inf', '(' .. text(cutoff), 'LIMIT', 0, count)
  if #old > 0 then
    redis.call('ZREM', base .. ':tried', unpack(old))
    redis.call('HDEL', base .. ':tries', unpack(old))
  end
end
