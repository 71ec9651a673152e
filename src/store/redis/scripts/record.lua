-- Moves operations along listed transitions.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  generation of the process
-- ARGV     thirteen per record: key, states it is listed from (ten of 0 and 1), state it leads to (x: not the listed
--          one), instant (Redis TIME), the same by the caller's clock, next instant or empty, attempts, status or
--          empty (with a mark: may have been sent), provider's id or empty, a person's words or empty, deadline or empty, what it does to the attempt
--          (v: void, l: lost, e: ended, with what it leaves charged after a colon; empty: nothing), state as told
-- Answer   operations that have ended, then per record an empty text, or the state from which it is not listed
--
-- The rules are those of `rules.rs`: repeated, it changes nothing.
local base = KEYS[1]
local rows = base .. ':rows'
local answers = { 0 }

local function finish(key, r, does, at)
  local member = key .. '.' .. r.numbers
  if does == 'v' then
    redis.call('ZREM', base .. ':tried', member)
    redis.call('HDEL', base .. ':tries', member)
  elseif string.sub(does, 1, 1) == 'e' then
    local try = redis.call('HGET', base .. ':tries', member)
    if try then redis.call('HSET', base .. ':tries', member, at .. string.sub(does, 2) .. string.match(try, '|.*$')) end
  end
end

-- Whether to apply it; where not, the state that speaks against it, or nothing for what was done before.
local function judge(r, i)
  local same_clock = r.by == ARGV[1]
  local at = tonumber(same_clock and ARGV[i + 4] or ARGV[i + 3])
  local changed = tonumber(same_clock and r.said or r.changed)
  if ARGV[i + 12] == r.state and ARGV[i + 6] == r.attempts and at == changed then return false, '' end
  local state = tonumber(r.state)
  if string.sub(ARGV[i + 1], state + 1, state + 1) == '1' then
    if ARGV[i + 2] == 'x' then return false, r.state end
    return not (state == 2 and ARGV[i + 11] ~= 'l' and at < changed), ''
  end
  if at <= changed then return false, '' end
  if ARGV[i + 11] == 'v' and (state == 0 or state == 1 or state == 3) then return false, '' end
  return false, r.state
end

for i = 2, #ARGV, 13 do
  local key = ARGV[i]
  local row = redis.call('HGET', rows, key)
  local answer = ''
  if row then
    local r = parse(row)
    local applies
    applies, answer = judge(r, i)
    if applies then
      local before, at = r.state, ARGV[i + 3]
      if before == '2' then finish(key, r, ARGV[i + 11], at) end
      r.state, r.changed, r.by, r.said, r.next = ARGV[i + 2], at, ARGV[1], ARGV[i + 4], ARGV[i + 5]
      r.attempts = ARGV[i + 6]
      local status = string.match(ARGV[i + 7], '%d+') or string.match(r.status, '%d*')
      local mark = string.match(ARGV[i + 7], '!') or string.match(r.status, '!') or ''
      r.status = status .. mark
      if ARGV[i + 8] ~= '' then r.provider = ARGV[i + 8] end
      if ARGV[i + 9] ~= '' then r.order = ARGV[i + 9] end
      if ARGV[i + 10] ~= '' then r.deadline = ARGV[i + 10] end
      redis.call('HSET', rows, key, pack(r))
      place(base, key, r, before)
      if is_over(r.state) then redis.call('HDEL', base .. ':mail', key) end
    end
  end
  answers[#answers + 1] = answer
end
answers[1] = redis.call('ZCARD', base .. ':end')
return answers
