//! Probes, which check that Redis is reachable and has not been replaced. An open connection proves nothing,
//! so each probe is a message that must make the round trip.

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, from_redis_value};

use super::command_connections::CommandConnections;
use super::errors::unexpected;
use super::generation::RedisGeneration;

/// Relevant fields of Redis's `INFO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisInfo {
    pub(super) is_master: bool,
    /// Changes when a replica becomes master and when Redis restarts.
    pub(super) replication_id: String,
    /// Whether Redis evicts keys when its memory is full.
    pub(super) evicts: bool,
    /// Whether Redis has used all of the memory that it may use.
    pub(super) is_full: bool,
}

impl RedisInfo {
    pub(super) async fn query(commands: &mut MultiplexedConnection) -> Result<Self, RedisError> {
        let text: Value = cmd("INFO").query_async(commands).await?;
        Self::parse(&from_redis_value::<String>(text)?)
            .ok_or_else(|| unexpected("INFO lacks a required field"))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
        };
        let bytes = |key| value(key).and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or_default();
        let used = bytes("used_memory").saturating_sub(bytes("mem_not_counted_for_evict"));
        let max = bytes("maxmemory");
        Some(Self {
            is_master: value("role")? == "master",
            replication_id: value("master_replid")?,
            evicts: value("maxmemory_policy").is_some_and(|policy| policy != "noeviction"),
            is_full: max > 0 && used > max,
        })
    }
}

/// Sends a probe, whose message must be received back with this number.
pub(super) async fn send_probe(
    connections: CommandConnections,
    feed: String,
    number: u64,
) -> Result<RedisInfo, RedisError> {
    let mut commands = connections.commands;
    let _: Value = cmd("PUBLISH").arg(feed).arg(number).query_async(&mut commands).await?;
    RedisInfo::query(&mut commands).await
}

/// Determines the current generation of the Redis data set, a number on which all servers agree.
pub(super) async fn learn_generation(
    connections: &CommandConnections,
    key: &str,
    replication_id: &str,
) -> Result<u64, RedisError> {
    let mut commands = connections.commands.clone();
    let generation: u64 =
        connections.scripts.generation(key, replication_id).query_async(&mut commands).await?;
    *connections.generation.write() =
        RedisGeneration { number: generation, replication_id: replication_id.into() };
    Ok(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_parsed() {
        let info = RedisInfo::parse(
            "# Memory\r\nused_memory:9\r\nused_memory_rss:9\r\nmem_not_counted_for_evict:1\r\nmaxmemory:7\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nmaster_replid:abc\r\nmaster_replid2:0\r\n",
        );
        assert_eq!(
            info,
            Some(RedisInfo { is_master: true, replication_id: "abc".into(), evicts: false, is_full: true })
        );
        let info = RedisInfo::parse(
            "role:slave\nmaster_replid:abc\nused_memory:7\nmaxmemory:0\nmaxmemory_policy:allkeys-lru\n",
        );
        assert_eq!(
            info,
            Some(RedisInfo { is_master: false, replication_id: "abc".into(), evicts: true, is_full: false })
        );
        assert_eq!(RedisInfo::parse("role:master"), None);
    }
}
