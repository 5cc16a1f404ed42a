//! Presence of a channel's subscribers on all servers that share it.
//!
//! Each server holds a lease in Redis, which it renews with its probes. A query is published to all servers
//! on a common feed, and in the same step Redis returns the servers that hold a lease: these must reply.
//! Replies go to the feed of the querying server. Servers that do not reply in time are listed as incomplete.

mod pages;
pub(super) mod peers;
mod queries;
mod requests;
pub(super) mod wire;
