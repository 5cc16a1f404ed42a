-- What a server must know of a channel to follow it. The channel's log is read beside this script, in the same transaction: in a script that
-- would take eight times as long.
--
-- KEYS: the meta key and the log of the channel.
-- ARGV: 1 for how many milliseconds the meta key is kept (0: for ever), 2 the epoch, if a new one begins, 3 the life.
-- Returns the epoch, the offset of the newest message, past epochs with their cuts, and the time.

local epoch, past = epoch_of(KEYS[1], KEYS[2], ARGV[2], ARGV[3])
if ARGV[1] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local offset = tonumber(redis.call('HGET', KEYS[1], 'offset') or '0')
return { epoch, offset, past, tonumber(milliseconds()) }
