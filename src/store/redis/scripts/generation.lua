-- A number for one start of one process, that no other start has.
--
-- KEYS[1]  where the last one stands
-- Answer   the number: above the last one, and not below the seconds since 2026, so that it is new even when the server
--          has forgotten the last one (unless that was given out in this very second)
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local number = math.max(last + 1, now[1] - 1767225600)
redis.call('SET', KEYS[1], string.format('%.0f', number))
return number
