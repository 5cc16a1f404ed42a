//! Redis as the engine of channels.

use encke_tests::redis::Redis;
use encke_tests::{Launch, RunningServer};

// What a server's user must be allowed.
mod access;
// What Redis keeps on disk, and what it may have lost of that.
mod disk;
// Redis goes away, comes back, stands still, is another.
mod faults;
// Joins and leaves, on all servers.
mod join_leave;
// Links that fail one way, and a reader that Redis gives up.
mod links;
// What the scripts do, in Rust.
mod model;
// Several servers, one Redis.
mod nodes;
// Patterns, which are one server's own.
mod patterns;
// Who follows a channel, on all servers.
mod presence;
// Sessions that outlive their server, and what they follow in Redis.
mod restarts;
// More reminders at once than Redis is asked at once.
mod reminders;
// The scripts held against the model.
mod scripts;
// A master that fails, and Sentinels that make a replica the master.
mod sentinels;
// TLS, and certificates that will not do.
mod tls;

/// A server whose channels are there.
fn launch(redis: &Redis) -> Launch {
    Launch::with(&["engine.kind=redis", &format!("engine.url={}", redis.url())])
}

#[track_caller]
fn node(redis: &Redis) -> RunningServer {
    launch(redis).start()
}

/// The keys of the channel `news`: what is known of it, its log, where servers listen.
fn keys_of_news() -> [String; 3] {
    ["m", "l", "c"].map(|kind| format!("encke:{{38}}{kind}:news"))
}
