-- Appends a message to a channel's log, and tells all servers that follow the channel. A publish may have a key: a repeat of it, for as long as
-- it is known, gets the first reply, and nothing else happens.
--
-- KEYS: the meta key and the log of the channel; where publishes that had keys are known, if this one has one.
-- ARGV: 1 the message, 2 how many messages the log keeps at least, 3 for how many milliseconds the log is kept at least after its newest
--       message (0: for ever), 4 for how many it is kept, 5 for how many the meta key is, 6 the epoch, if a new one begins, 7 the life, 8 where
--       servers listen, 9 the user whose client publishes it (empty: nobody by name), 10 what stands for the publisher and its key, 11 how many
--       of these are known.
-- Returns the epoch and the offset, and one more value if it was published before.
--
-- That the keys stay is not said for each message, but when what was said last is not enough any more.
--
-- Known publishes are a hash: what stands for the publisher and its key, with `<milliseconds> <offset> <number> <epoch>`; `n`, how many there
-- were, which is the number of the last; and, by number, in a circle of as many as are known, what stands for each.

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
  -- Another server keeps it for a time.
  redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[1])
  redis.call('HDEL', KEYS[1], 'kept')
end

if KEYS[3] then
  local number = redis.call('HINCRBY', KEYS[3], 'n', 1)
  local place = number % ARGV[11]
  local oldest = redis.call('HGET', KEYS[3], place)
  if oldest then
    -- It may have been published again since then, and have another number.
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
