-- Comes before the script that publishes: is this still the Redis that the server takes it for?
--
-- A connection survives that its Redis becomes the replica of another, loses the newest messages to it, and is a master again. It has
-- another replication id then. Without this question, numbers that were given already would be given again, in the same epoch, until servers
-- see that by their next probe.
--
-- ARGV: the last one is the replication id.

if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[#ARGV], 1, true) then
  return redis.error_reply('ANOTHER it has another replication id than before')
end

