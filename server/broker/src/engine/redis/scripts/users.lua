-- Records which users are online on which servers, and creates an event when a user comes online on the first server and when a user goes
-- offline on the last one.
--
-- A server registers its users under a name with a lease. When the lease has ended, or the name is given up, other servers unregister the
-- users, some in each call; the server must then use another name. Events are stored until the server that caused them has acknowledged
-- the call, so none is lost with a reply. A call that is repeated changes nothing.
--
-- KEYS:
--   1  sorted set of the names in use, by the end of their lease
--   2  sorted set of the names whose users are to be unregistered
--   3  hash of the online users, with the number of their servers
--   4  prefix of a sorted set for each name: its users
--   5  prefix of a sorted set for each name: its events, by the number of the call, as `<id> <milliseconds> <sign><user>`
-- ARGV:
--   1  the name
--   2  lifetime of its lease in milliseconds
--   3  number of this call, greater than those of the name's earlier calls
--   4  number of the name's last call whose reply has arrived (empty: none, since this is its first call)
--   5  name that is given up (empty: none)
--   6  events of the users below: empty for none
--   7  and following: users that came online, as `+<user>`, or went offline, as `-<user>`
-- Returns 0 if the name is not in use. Otherwise, returns 1, or 2 if there are more users to unregister, and all events.

local MAX_UNREGISTERED = 100

local name, call = ARGV[1], ARGV[3]
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local count = 0

local function change(holder, sign, user, has_event)
  local users = KEYS[4] .. holder
  local is_first_or_last = false
  if sign == '+' then
    is_first_or_last = redis.call('ZADD', users, 0, user) == 1 and redis.call('HINCRBY', KEYS[3], user, 1) == 1
  elseif redis.call('ZREM', users, user) == 1 and redis.call('HINCRBY', KEYS[3], user, -1) <= 0 then
    redis.call('HDEL', KEYS[3], user)
    is_first_or_last = true
  end
  if is_first_or_last and has_event then
    count = count + 1
    local id = name .. '-' .. call .. '-' .. count
    redis.call('ZADD', KEYS[5] .. name, call, id .. ' ' .. now .. ' ' .. sign .. user)
  end
end

local function give_up(other)
  redis.call('ZREM', KEYS[1], other)
  redis.call('ZADD', KEYS[2], now, other)
end

local is_new = redis.call('ZADD', KEYS[1], now + ARGV[2], name) == 1
if is_new and ARGV[4] ~= '' then
  redis.call('ZREM', KEYS[1], name)
  return { 0 }
end
if ARGV[4] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[5] .. name, '-inf', ARGV[4])
end

for place = 7, #ARGV do
  change(name, string.sub(ARGV[place], 1, 1), string.sub(ARGV[place], 2), ARGV[6] ~= '')
end

if ARGV[5] ~= '' then
  give_up(ARGV[5])
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if tonumber(oldest[2]) < tonumber(now) then
  give_up(oldest[1])
end
local other = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if other then
  local users = redis.call('ZRANGE', KEYS[4] .. other, 0, MAX_UNREGISTERED - 1)
  for _, user in ipairs(users) do
    change(other, '-', user, true)
  end
  if #users < MAX_UNREGISTERED then
    -- The other server may not have received its last events. If it has, they are repeated with the same ids.
    for _, event in ipairs(redis.call('ZRANGE', KEYS[5] .. other, 0, -1)) do
      redis.call('ZADD', KEYS[5] .. name, call, event)
    end
    redis.call('DEL', KEYS[4] .. other, KEYS[5] .. other)
    redis.call('ZREM', KEYS[2], other)
  end
end

local events = redis.call('ZRANGE', KEYS[5] .. name, 0, -1)
table.insert(events, 1, other and 2 or 1)
return events
