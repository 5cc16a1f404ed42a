//! Redis as the engine of channels.

use encke_tests::redis::Redis;
use encke_tests::{Launch, RunningServer};

// Permissions of the server's Redis user.
mod access;
// Persistence, and losses despite persistence.
mod disk;
// A Redis that is killed, restarted, frozen or replaced.
mod faults;
// Joins and leaves over several servers.
mod join_leave;
// Links that fail in one direction, and a slow server that Redis disconnects.
mod links;
// Model of the Redis scripts in Rust.
mod model;
// Several servers with one Redis.
mod nodes;
// Patterns, whose logs are local to each server.
mod patterns;
// Presence over several servers.
mod presence;
// Sessions restored from a snapshot, with subscriptions in Redis.
mod restarts;
// More simultaneous reminders than a server requests from Redis in one batch.
mod reminders;
// The scripts compared with the model.
mod scripts;
// Failovers by Sentinels.
mod sentinels;
// TLS, and unacceptable certificates.
mod tls;

/// Configures a server that keeps its channels in this Redis.
fn launch(redis: &Redis) -> Launch {
    Launch::with(&["engine.kind=redis", &format!("engine.url={}", redis.url())])
}

#[track_caller]
fn node(redis: &Redis) -> RunningServer {
    launch(redis).start()
}

/// Returns the meta key, log and feed of the channel `news`.
fn keys_of_news() -> [String; 3] {
    ["m", "l", "c"].map(|kind| format!("encke:{{38}}{kind}:news"))
}
