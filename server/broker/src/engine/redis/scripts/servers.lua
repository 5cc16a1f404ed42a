-- Renews the lease of a server, and optionally publishes a query to all servers that share the channels.
--
-- KEYS: a sorted set of servers, with the expiry of each lease.
-- ARGV:
--   1  the server
--   2  lifetime of its lease in milliseconds
--   3  the feed for queries
--   4  the query (empty: none)
-- Returns the servers that hold a lease.

local MAX_SERVERS = 1024

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[4] ~= '' then
  redis.call('PUBLISH', ARGV[3], ARGV[4])
end
return redis.call('ZRANGE', KEYS[1], 0, MAX_SERVERS - 1)
