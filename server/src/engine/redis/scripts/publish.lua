-- Appends a message to a channel's log, and tells all servers that follow the channel.
--
-- KEYS: the meta key and the log of the channel.
-- ARGV: 1 the message, 2 how many messages the log keeps at least, 3 for how many milliseconds it is kept after its newest message, 4 for how
--       many the meta key is (0: for ever), 5 the epoch, if a new one begins, 6 the life, 7 where servers listen.
-- Returns the epoch and the offset.

local epoch = epoch_of(KEYS[1], KEYS[2], ARGV[5], ARGV[6])
local offset = redis.call('HINCRBY', KEYS[1], 'offset', 1)
local at = milliseconds()
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '0-' .. offset, 't', at, 'd', ARGV[1])
expire(KEYS[2], ARGV[3])
expire(KEYS[1], ARGV[4])
redis.call('PUBLISH', ARGV[7], epoch .. ' ' .. offset .. ' ' .. at .. ' ' .. ARGV[1])
return { epoch, offset }
