//! Whether Redis is still there, and still the same. Silence is not health: a message must go all the way round.

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, from_redis_value};

use super::connection::odd;
use super::link::{RedisLife, Up};

/// What Redis says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) is_master: bool,
    /// Another one after each change of masters, and after a start.
    pub(super) replication_id: String,
    /// It drops keys when it is full.
    pub(super) evicts: bool,
}

impl Info {
    pub(super) async fn ask(commands: &mut MultiplexedConnection) -> Result<Self, RedisError> {
        let text: Value = cmd("INFO").query_async(commands).await?;
        Self::parse(&from_redis_value::<String>(text)?).ok_or_else(|| odd("INFO lacks something"))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
        };
        Some(Self {
            is_master: value("role")? == "master",
            replication_id: value("master_replid")?,
            evicts: value("maxmemory_policy").is_some_and(|policy| policy != "noeviction"),
        })
    }
}

/// One probe. Its message comes back with this number.
pub(super) async fn send(up: Up, feed: String, number: u64) -> Result<Info, RedisError> {
    let mut commands = up.commands;
    let _: Value = cmd("PUBLISH").arg(feed).arg(number).query_async(&mut commands).await?;
    Info::ask(&mut commands).await
}

/// Which life of Redis it is, as all servers count them.
pub(super) async fn learn_life(up: &Up, key: &str, replication_id: &str) -> Result<u64, RedisError> {
    let mut commands = up.commands.clone();
    let life: u64 = up.scripts.life(key, replication_id).query_async(&mut commands).await?;
    *up.life.write() = RedisLife { number: life, replication_id: replication_id.into() };
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_says_of_itself() {
        let info = Info::parse(
            "# Memory\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nmaster_replid:abc\r\nmaster_replid2:0\r\n",
        );
        assert_eq!(info, Some(Info { is_master: true, replication_id: "abc".into(), evicts: false }));
        let info = Info::parse("role:slave\nmaster_replid:abc\nmaxmemory_policy:allkeys-lru\n");
        assert_eq!(info, Some(Info { is_master: false, replication_id: "abc".into(), evicts: true }));
        assert_eq!(Info::parse("role:master"), None);
    }
}
