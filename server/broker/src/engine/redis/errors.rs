//! Errors of Redis, and what they mean for a request and for the connection.

use std::io;
use std::time::Duration;

use redis::{RedisError, Value};

/// Error for a Redis server that may evict keys, and messages with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis may evict keys, and messages with them, when its memory is full (maxmemory-policy is not \
     noeviction); set engine.allow_eviction = true to accept this"
)]
pub struct EvictsKeys;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("{}", describe(.0))]
    Failed(#[from] RedisError),
    #[error("no Sentinel knows the address of the master {0:?}: {1}")]
    NoMaster(String, String),
    #[error("Redis is a replica")]
    Replica,
    #[error(transparent)]
    Evicts(#[from] EvictsKeys),
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    #[error("connection closed")]
    Closed,
    #[error("probe lost: no response within {0:?}")]
    ProbeLost(Duration),
}

/// Describes an error for logs and replies, without the data that was sent.
pub(super) fn describe(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("Redis error {code}: {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    }
}

/// Creates an error for an unexpected reply.
pub(super) fn unexpected(what: &'static str) -> RedisError {
    io::Error::other(what).into()
}

/// Turns an error value in a reply into an `Err`.
pub(super) fn check_reply(value: Value) -> Result<Value, RedisError> {
    value.extract_error()
}

/// Whether Redis rejected the command before executing it.
pub(super) fn was_rejected(error: &RedisError) -> bool {
    const REJECTIONS: [&str; 12] = [
        "ANOTHER",
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "NOSCRIPT",
        "OOM",
        "READONLY",
    ];
    error.code().is_some_and(|code| REJECTIONS.contains(&code))
}

/// Whether a script had no effect because Redis has another replication id, and therefore another generation.
pub(super) fn is_other_generation(error: &RedisError) -> bool {
    error.code() == Some("ANOTHER")
}

/// Whether Redis has been replaced or has lost its scripts, so that the server must reconnect.
pub(super) fn must_reconnect(error: &RedisError) -> bool {
    error.code().is_some_and(|code| ["ANOTHER", "NOSCRIPT", "READONLY", "NOAUTH"].contains(&code))
}
