-- Writes attempt rows before the first byte of an email leaves, and answers with what to send.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  how long attempts are kept, in microseconds
-- ARGV[2]  generation of the process
-- ARGV[3]  token of the lease under which it is claimed; empty: not asked
-- ARGV     five per claim: key, number of the attempt, instant (Redis TIME), the same by the caller's clock, costs
-- Answer   per claim the email, or nothing when nothing may be sent, or 0 when the lease is not the latest or has run out
--
-- An attempt is stamped here, and never before the claim is executed. The rules are those of `rules.rs`.
local base = KEYS[1]
local now = now_us()
local rows, mails, tried, tries = base .. ':rows', base .. ':mail', base .. ':tried', base .. ':tries'
local answers = {}
local fenced = ARGV[3] ~= '' and not holds(lease_of(base), ARGV[3], now)
for i = 4, #ARGV, 5 do
  local key, number = ARGV[i], tonumber(ARGV[i + 1])
  local row = not fenced and redis.call('HGET', rows, key)
  local mail = row and redis.call('HGET', mails, key)
  if mail then
    local r = parse(row)
    local numbers, before = tonumber(r.numbers), r.state
    local waits = before == '0' or before == '1' or before == '3'
    if (waits or before == '2') and number > numbers then
      local at = text(math.max(tonumber(ARGV[i + 2]), now))
      local member = key .. '.' .. ARGV[i + 1]
      redis.call('ZADD', tried, at, member)
      redis.call('HSET', tries, member, '|' .. r.lane .. '|' .. ARGV[i + 4] .. '|' .. r.tenant)
      r.state, r.changed, r.by, r.said = '2', at, ARGV[2], ARGV[i + 3]
      r.next, r.numbers = '', ARGV[i + 1]
      redis.call('HSET', rows, key, pack(r))
      if waits then place(base, key, r, before) end
    elseif not (before == '2' and number == numbers) then
      mail = false
    end
  end
  answers[#answers + 1] = fenced and 0 or mail or false
end
forget_attempts(base, now - tonumber(ARGV[1]), 64)
return answers
