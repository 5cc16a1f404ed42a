-- Renews or ends the lease of a server that shares its sessions. While the lease lasts, no other server adopts these sessions.
--
-- A lease that has ended stays in the sorted set until the server owns no sessions: other servers find the sessions by it.
--
-- `same_redis.lua` must precede this script: it rejects a request of a server that does not know the current generation.
--
-- KEYS:
--   1  sorted set of the servers, with the expiry of each lease
--   2  sorted set of the servers, with the time at which each got its lease
--   3  prefix of a set for each server: its sessions
-- ARGV:
--   1  renew or end
--   2  the server
--   3  lifetime of the lease in milliseconds (renew)
-- Returns, for renew: 1 if the server still had the lease, otherwise 0; the servers that have a lease; the servers that have none, and own
-- sessions; the number of sessions without an owner; and the number of the server's sessions. Returns nothing for end.

-- Maximum number of servers in each list, and of ended leases that a call examines.
local MAX_SERVERS = 1024

local operation, server = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function owns_sessions(name)
  return redis.call('SCARD', KEYS[3] .. name) > 0
end

local function remove(name)
  redis.call('ZREM', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end

if operation == 'end' then
  if owns_sessions(server) then
    redis.call('ZADD', KEYS[1], now, server)
  else
    remove(server)
  end
  return
end

local expires = redis.call('ZSCORE', KEYS[1], server)
local was_held = expires and tonumber(expires) > now
redis.call('ZADD', KEYS[1], now + ARGV[3], server)
if not was_held then
  redis.call('ZADD', KEYS[2], now, server)
end

local ended_by = string.format('%d', now)
local alive = redis.call('ZRANGE', KEYS[1], '(' .. ended_by, '+inf', 'BYSCORE', 'LIMIT', 0, MAX_SERVERS)
local dead = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '-inf', ended_by, 'BYSCORE', 'LIMIT', 0, MAX_SERVERS)) do
  if owns_sessions(name) then
    table.insert(dead, name)
  else
    remove(name)
  end
end
return { was_held and 1 or 0, alive, dead, redis.call('SCARD', KEYS[3]), redis.call('SCARD', KEYS[3] .. server) }
