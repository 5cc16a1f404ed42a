//! Directory of the sessions that several servers share.
//!
//! Redis has a record of each session, and a lease of each server. Each request is one call of a script
//! (`scripts/session.lua`, `scripts/lease.lua`), which has no effect if this server does not know the current
//! generation. A server receives the messages of other servers on its own feed.

pub(super) mod directory_state;
mod lease;
mod messages;
mod redis_directory;
mod requests;

pub(super) use redis_directory::RedisDirectory;
