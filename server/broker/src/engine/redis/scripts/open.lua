-- Returns the state of a channel that a server needs to subscribe to it. A separate command in the same transaction reads the channel's log;
-- reading it in a script would take eight times as long.
--
-- KEYS: the meta key and the log of the channel.
-- ARGV:
--   1  lifetime of the meta key in milliseconds (0: unlimited)
--   2  id for the epoch, if a new one starts
--   3  the generation
-- Returns the epoch, the offset of the newest message, earlier epochs with their cuts, and the time.

local epoch, past = epoch_of(KEYS[1], KEYS[2], ARGV[2], ARGV[3])
if ARGV[1] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local offset = tonumber(redis.call('HGET', KEYS[1], 'offset') or '0')
return { epoch, offset, past, tonumber(milliseconds()) }
