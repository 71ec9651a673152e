-- Has a shared scope rest until an instant: the latest counts.
--
-- KEYS[1]  the scope's cooldown
-- ARGV[1]  until (Redis TIME, microseconds)
-- ARGV[2]  channel of news
-- ARGV[3]  the word that tells it
-- Answer   until when it rests by everybody's word
local now = now_us()
local kept, till = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if till <= kept then return text(kept) end
if till > now then
  -- Kept a minute longer than it counts.
  redis.call('SET', KEYS[1], text(till), 'PX', text(math.ceil((math.min(till, now + 31536000000000) - now) / 1000) + 60000))
  redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return text(till)
