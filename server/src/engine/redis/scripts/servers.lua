-- The servers that share channels: a server says that it is there, and may ask all of them something.
--
-- KEYS: a sorted set of servers, each with when its lease ends.
-- ARGV: 1 the server, 2 for how many milliseconds it has its lease from now on, 3 where servers listen, 4 the question; empty: none.
-- Returns the servers that are there.

local MOST_SERVERS = 1024

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[4] ~= '' then
  redis.call('PUBLISH', ARGV[3], ARGV[4])
end
return redis.call('ZRANGE', KEYS[1], 0, MOST_SERVERS - 1)
