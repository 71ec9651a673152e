-- Operations of a mailbox per state: nothing is counted, each index knows its size.
--
-- KEYS[1]  base of the mailbox
-- Answer   ten counts, in the order of `OperationState::ALL`
local counts = {}
for state = 0, 9 do
  counts[state + 1] = redis.call('ZCARD', queue(KEYS[1], state, 0)) + redis.call('ZCARD', queue(KEYS[1], state, 1))
end
return counts
