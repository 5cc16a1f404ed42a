-- Which life of Redis this is: one more than the last that was seen with another replication id. A Redis that takes over from another
-- has a new one, and so has one that was started again.
--
-- The first is numbered by the time, in milliseconds: if this key is lost, and channels are not or were made again, lives after that must have
-- higher numbers than all that channels know.
--
-- KEYS: the key of the life. ARGV: 1 the replication id.
-- Returns the life.

local known = redis.call('HMGET', KEYS[1], 'id', 'life')
if known[1] == ARGV[1] and known[2] then
  return tonumber(known[2])
end
local life
if known[2] then
  life = tonumber(known[2]) + 1
else
  local time = redis.call('TIME')
  life = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'life', life)
return life
