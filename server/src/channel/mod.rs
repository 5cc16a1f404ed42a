//! Channels: named streams of messages, each with a bounded log, and the sessions that follow them.
//!
//! Nothing is pushed. A publish appends to the log and wakes the subscribers that have read to its end; each then reads
//! from its own cursor as fast as its socket takes it. So a slow session costs its cursor, and a suspended one no
//! more.
//!
//! [`Channels`] is all that the rest of the server sees. An engine that shares channels between several machines would
//! stand behind the same interface: it appends elsewhere, feeds the logs here from there, and wakes the same
//! subscribers.

mod budget;
mod channels;
mod fan_out;
mod log;
mod name;
mod state;
mod subscribers;

pub use channels::LogLimits;
pub(crate) use channels::{Channels, Published, TooManyChannels};
pub(crate) use name::{BadChannelName, ChannelName};
pub(crate) use state::{Channel, HistoryMessage};
pub(crate) use subscribers::SubscriberKey;

#[cfg(test)]
mod tests;
