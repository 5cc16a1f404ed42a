-- Prefix of the scripts that concern channels: determines the epoch of a channel.
--
-- A channel's meta key is a hash with these fields:
--   epoch   the current epoch
--   offset  the offset of the newest message
--   life    the generation of the data set in which the epoch started
--   past    earlier epochs, newest first, as `<epoch> <cut> <epoch> <cut> ...`. The cut is the newest message that still existed when the
--           next epoch started.
--   kept    the time at which the log expires: see `publish.lua`
--
-- A Redis that takes over from another may have lost the newest messages. Servers detect this, and then pass a higher generation. This gives
-- the channel a new epoch, so that new messages are not mistaken for lost ones; its offsets continue. A server that has not detected the
-- change yet passes a lower generation, which has no effect.

local MAX_PAST_EPOCHS = 16

local function epoch_of(meta, log, new_epoch, generation)
  local known = redis.call('HMGET', meta, 'epoch', 'life', 'offset', 'past', 'kept')
  local epoch, past, kept = known[1], known[4] or '', known[5]
  if epoch and tonumber(known[2]) >= tonumber(generation) then
    return epoch, past, kept
  end
  if epoch then
    local epochs = { epoch .. ' ' .. (known[3] or '0') }
    for earlier in string.gmatch(past, '%S+ %S+') do
      if #epochs < MAX_PAST_EPOCHS then
        epochs[#epochs + 1] = earlier
      end
    end
    past = table.concat(epochs, ' ')
  end
  -- This must be the first write of the script: Redis checks its memory limit before each write, but no longer once a write has succeeded
  -- that needs no memory, such as a deletion.
  redis.call('HSET', meta, 'epoch', new_epoch, 'life', generation, 'past', past)
  if not epoch then
    -- Without a meta key, the epoch of remaining log entries is unknown.
    redis.call('DEL', log)
  end
  return new_epoch, past, kept
end

-- Returns the time of Redis in milliseconds as text. In Redis's Lua, formatting a number costs as much as a small command.
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6, -4)
end
