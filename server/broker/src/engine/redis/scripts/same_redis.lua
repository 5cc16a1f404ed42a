-- Prefix of the scripts for publishes, session records and leases: checks the replication id.
--
-- A connection can outlive a period in which its Redis becomes a replica, loses its newest messages to the new master, and is promoted again.
-- The replication id then differs. Without this check, offsets would be assigned twice in the same epoch, until the servers' next probes
-- detect the change.
--
-- ARGV: the last one is the replication id.

if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[#ARGV], 1, true) then
  return redis.error_reply('ANOTHER the replication id has changed')
end

