-- Gives ids to operations before their rows are written: of two that submit the same id, one gets it.
--
-- KEYS[1]  base of a shard of ids
-- ARGV     three per id: id, value to keep, value that may be replaced (empty: none)
-- Answer   now, then two per id: an empty text where it was given, else who has it; and since when it has been waiting
--          for its row, in microseconds (-1: its row was confirmed)
--
-- Repeated, it answers the same. An id stays in `pending` until its row is confirmed: who dies in between leaves it there.
local ids, pending = KEYS[1] .. ':ids', KEYS[1] .. ':pending'
local now = now_us()
local answers = { text(now) }
for i = 1, #ARGV, 3 do
  local id, value, old = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local found = redis.call('HGET', ids, id)
  if not found or found == value or (old ~= '' and found == old) then
    if found ~= value then redis.call('HSET', ids, id, value) end
    redis.call('ZADD', pending, text(now), id)
    answers[#answers + 1] = found == value and value or ''
    answers[#answers + 1] = '0'
  else
    local since = redis.call('ZSCORE', pending, id)
    answers[#answers + 1] = found
    answers[#answers + 1] = since and text(now - tonumber(since)) or '-1'
  end
end
return answers
