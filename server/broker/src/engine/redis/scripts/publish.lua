-- Appends a message to a channel's log, and publishes it to all servers that subscribe to the channel. A publish may have an id: a repeated
-- publish whose id is still known returns the first reply and has no other effect.
--
-- KEYS: the meta key and the log of the channel and, for a publish with an id, the key of the known ids.
-- ARGV:
--   1   the message
--   2   minimum number of messages that the log retains
--   3   minimum lifetime of the log after its newest message, in milliseconds (0: unlimited)
--   4   lifetime to set for the log
--   5   lifetime to set for the meta key
--   6   id for the epoch, if a new one starts
--   7   the generation
--   8   the channel's feed
--   9   the user whose client publishes the message (empty: anonymous)
--   10  digest of the publish id
--   11  maximum number of known ids
-- Returns the epoch and the offset, and a third value if this is a repeated publish.
--
-- Expiry times are not renewed with every message, but only when the current ones are no longer sufficient.
--
-- The known ids are a hash with these fields:
--   <digest>  `<milliseconds> <offset> <number> <epoch>` of the publish
--   n         the number of the last id
--   <number>  the digest of the id with this number, modulo the maximum

local at = milliseconds()
if KEYS[3] then
  local known = redis.call('HGET', KEYS[3], ARGV[10])
  if known then
    local first_at, offset, epoch = string.match(known, '^(%d+) (%d+) %d+ (.*)$')
    if ARGV[3] == '0' or first_at + ARGV[3] > tonumber(at) then
      return { epoch, tonumber(offset), 1 }
    end
  end
end

local epoch, _, kept = epoch_of(KEYS[1], KEYS[2], ARGV[6], ARGV[7])
local offset = redis.call('HINCRBY', KEYS[1], 'offset', '1')
local written_offset = string.format('%d', offset)
local user = ''
if ARGV[9] == '' then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '0-' .. written_offset, 't', at, 'd', ARGV[1])
else
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '0-' .. written_offset, 't', at, 'd', ARGV[1], 'u', ARGV[9])
  user = ':' .. #ARGV[9] .. ' ' .. ARGV[9]
end
if ARGV[3] ~= '0' then
  if not kept or kept - ARGV[3] < tonumber(at) then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
    redis.call('HSET', KEYS[1], 'kept', at + ARGV[4])
  end
elseif kept then
  -- Another server has set a lifetime.
  redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[1])
  redis.call('HDEL', KEYS[1], 'kept')
end

if KEYS[3] then
  local number = redis.call('HINCRBY', KEYS[3], 'n', 1)
  local place = number % ARGV[11]
  local oldest = redis.call('HGET', KEYS[3], place)
  if oldest then
    -- The same id may have been recorded again since then, with another number.
    local known = redis.call('HGET', KEYS[3], oldest)
    if known and tonumber(string.match(known, '^%d+ %d+ (%d+)')) == number - ARGV[11] then
      redis.call('HDEL', KEYS[3], oldest)
    end
  end
  redis.call('HSET', KEYS[3], place, ARGV[10], ARGV[10], at .. ' ' .. written_offset .. ' ' .. number .. ' ' .. epoch)
  if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
  end
end
redis.call('PUBLISH', ARGV[8], epoch .. ' ' .. written_offset .. ' ' .. at .. user .. ' ' .. ARGV[1])
return { epoch, offset }
