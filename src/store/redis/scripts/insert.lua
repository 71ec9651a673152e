-- Writes the rows of new operations whose ids were given to them, or answers with the row that is there.
--
-- KEYS[1]  base of the mailbox
-- ARGV[1]  when the ids were given (Redis TIME, microseconds; 0: not asked)
-- ARGV[2]  how long after that a row may still be written
-- ARGV[3]  the latest instant its caller has named
-- ARGV[4]  channel of news (empty: nothing is posted to the mailbox's owner)
-- ARGV[5]  the word that tells it
-- ARGV     eight per entry: what (n: new, m: meet what is there), key, fingerprint, row, email, and a note: field,
--          end, value (empty field: none)
-- Answer   per entry: 1 (written), 0 (nothing there to meet, or it was voided), or the row that is there
--
-- Too late, it writes nothing: by then another process may have been given the ids. `gone` marks keys whose ids were
-- taken back for that reason, for a minute.
local base = KEYS[1]
local now = now_us()
if ARGV[1] ~= '0' and now - tonumber(ARGV[1]) > tonumber(ARGV[2]) then
  return redis.error_reply('LATE the ids were given too long ago')
end
local rows = base .. ':rows'
local answers, forgot = {}, false
local posts = ARGV[4] ~= '' and is_remembered(lease_of(base))
for i = 6, #ARGV, 8 do
  local what, key, print, row, mail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local field, till, value = ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]
  local found = redis.call('HGET', rows, key)
  local keeps = field ~= ''
  if found then
    keeps = keeps and parse(found).print == print
    answers[#answers + 1] = found
  elseif what == 'm' or redis.call('EXISTS', base .. ':gone:' .. key) == 1 then
    keeps = false
    answers[#answers + 1] = 0
  else
    redis.call('HSET', rows, key, row)
    redis.call('HSET', base .. ':mail', key, mail)
    place(base, key, parse(row), nil)
    if posts then post_letter(base, now, 'a:' .. key, ARGV[4], ARGV[5]) end
    answers[#answers + 1] = 1
  end
  if keeps then
    if not forgot then forget_notes(base, math.max(now, tonumber(ARGV[3]))) end
    forgot = true
    keep_note(base, field, till, value)
  end
end
return answers
