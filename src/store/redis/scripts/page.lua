-- One page of an index, with what its members stand for.
--
-- KEYS[1]  a sorted set
-- KEYS[2]  a hash by its members
-- ARGV[1]  lex: by members between ARGV[2] and ARGV[3]; score: by scores between them
-- ARGV[4]  how many to pass over
-- ARGV[5]  how many at most (Lua's unpack stops near 8,000)
-- Answer   three per member: member, score (empty by lex), value (nothing when it is not there)
local members, scores
if ARGV[1] == 'lex' then
  members = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', ARGV[4], ARGV[5])
else
  local found = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', ARGV[4], ARGV[5])
  members, scores = {}, {}
  for i = 1, #found, 2 do
    members[#members + 1] = found[i]
    scores[#scores + 1] = found[i + 1]
  end
end
local answers = {}
if #members > 0 then
  local values = redis.call('HMGET', KEYS[2], unpack(members))
  for i = 1, #members do
    answers[#answers + 1] = members[i]
    answers[#answers + 1] = scores and scores[i] or ''
    answers[#answers + 1] = values[i]
  end
end
return answers
