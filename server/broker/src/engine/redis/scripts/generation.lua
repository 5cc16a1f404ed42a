-- Determines the generation of the data set, which increases whenever the replication id has changed. The id changes when a replica is
-- promoted and when Redis restarts.
--
-- A new generation is the time in milliseconds, or one more than the last generation if the clock is behind it. Therefore, no number
-- is used twice if a failover loses the last write of this key, and even if the key is lost while channels survive or are created again,
-- later generations are higher than any that channels have recorded.
--
-- KEYS: the key of the generation. ARGV: 1 the replication id.
-- Returns the generation.

local known = redis.call('HMGET', KEYS[1], 'id', 'life')
if known[1] == ARGV[1] and known[2] then
  return tonumber(known[2])
end
local time = redis.call('TIME')
local generation = time[1] * 1000 + math.floor(time[2] / 1000)
if known[2] then
  generation = math.max(generation, tonumber(known[2]) + 1)
end
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'life', generation)
return generation
