-- Comes before the other scripts of channels: which epoch a channel is in.
--
-- A channel's meta key is a hash: `epoch`; `offset`, the number of the newest message; `life`, that of the Redis in which the epoch began;
-- `past`, earlier epochs, newest first, each with its cut: the newest message that was still there when the next began.
-- `<epoch> <cut> <epoch> <cut> ...`; `kept`, the time at which the log expires: see `publish.lua`.
--
-- A Redis that took over from another may have lost the newest messages. Servers notice, and from then on say a higher life. The channel
-- gets a new epoch then, so that nobody takes what comes for what was lost. Its offsets go on. A server that has not noticed yet says
-- a lower life, which changes nothing.

local MOST_PAST_EPOCHS = 4

local function epoch_of(meta, log, new_epoch, life)
  local known = redis.call('HMGET', meta, 'epoch', 'life', 'offset', 'past', 'kept')
  local epoch, past, kept = known[1], known[4] or '', known[5]
  if epoch and tonumber(known[2]) >= tonumber(life) then
    return epoch, past, kept
  end
  if epoch then
    local epochs = { epoch .. ' ' .. (known[3] or '0') }
    for earlier in string.gmatch(past, '%S+ %S+') do
      if #epochs < MOST_PAST_EPOCHS then
        epochs[#epochs + 1] = earlier
      end
    end
    past = table.concat(epochs, ' ')
  else
    -- Whatever is left of a log without a meta key is of an epoch that nobody knows.
    redis.call('DEL', log)
  end
  redis.call('HSET', meta, 'epoch', new_epoch, 'life', life, 'past', past)
  return new_epoch, past, kept
end

-- The time of Redis in milliseconds, as text: to write a number as text costs here as much as a small command.
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6, -4)
end
