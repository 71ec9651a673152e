-- The time, where the keys of no mailbox are.
--
-- KEYS[1]  any of them: it is not looked at
-- Answer   seconds and microseconds
return redis.call('TIME')
