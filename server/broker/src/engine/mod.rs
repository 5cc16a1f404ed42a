//! Engines, which own the logs of channels.
//!
//! Sessions read from the logs in [`channel`](crate::channel). The memory engine appends to these logs
//! directly. An engine shared by several servers appends to remote logs, and feeds the local ones from them.
//! Engines are called without holding a lock, and return an [`EngineResponse`], since only the memory engine
//! can always respond immediately.

mod backoff;
mod directory;
mod error;
mod log_engine;
mod memory;
mod presence;
mod redis;
mod response;

pub use backoff::RetryBackoff;
pub use directory::{
    DirectoryListener, DirectoryReply, DirectoryRequest, GrantedSession, LEASE, LeaseRenewal, RecordUser,
    RecordWrite, SecretHash, ServerMessage, SessionDirectory, SessionKey,
};
pub use error::EngineError;
pub use log_engine::{History, LogEngine};
pub use memory::MemoryEngine;
pub use presence::{Presence, UserSessions};
pub use redis::{
    EvictsKeys, RedisAddress, RedisEngine, RedisHealth, RedisLocation, RedisSettings, RedisTls, Sentinels,
    SharedUsers, UserEvent, UserEventSink, max_reply_bytes,
};
#[cfg(feature = "simulation")]
pub use redis::{SimulatedRedis, Stream};
pub use response::{EngineResponse, join_responses};
