-- Which life of Redis this is: one more than the last that was seen with another replication id. A Redis that takes over from another
-- has a new one, and so has one that was started again.
--
-- KEYS: the key of the life. ARGV: 1 the replication id.
-- Returns the life.

local known = redis.call('HMGET', KEYS[1], 'id', 'life')
if known[1] == ARGV[1] then
  return tonumber(known[2])
end
local life = tonumber(known[2] or '0') + 1
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'life', life)
return life
