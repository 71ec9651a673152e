-- Whether nobody looks after a mailbox that has something to do.
--
-- KEYS[1]  base of the mailbox
-- Answer   -1: it has nothing to do; 0: nobody owns it; else when the lease of its owner ends
local base = KEYS[1]
local now = now_us()
if redis.call('EXISTS', base .. ':live', base .. ':orders') == 0 then return '-1' end
local lease = lease_of(base)
if is_owned(lease, now) then return text(lease.till) end
return '0'
