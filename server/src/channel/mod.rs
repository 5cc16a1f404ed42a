//! Channels: named streams of messages, each with a bounded log, and what follows them.
//!
//! Nothing is pushed. A publish appends to the log and wakes the subscribers that have read to its end; each then reads at
//! its own cursor, as fast as its socket takes it. So a slow session costs its cursor, and a suspended one no more.
//!
//! A pattern (`/a/*`) is a channel that nobody publishes to: while it is followed, and for some time after, it gets what is published to the
//! channels that it stands for.
//!
//! Channels do not know who subscribes ([`Subscriber`]). Outside this room, an [engine](crate::engine) decides what
//! is appended.

mod budget;
mod busiest;
#[cfg(feature = "otlp")]
mod census;
mod channels;
mod fan_out;
mod feed;
mod hold;
mod idle;
mod keys;
mod life;
mod listing;
mod log;
mod message;
mod name;
mod namespaces;
mod occupancy;
mod pattern;
mod presence;
mod publish;
mod record;
mod restored;
mod snapshot;
mod state;
mod subscribers;
mod sweep;
mod trim;

pub(crate) use busiest::{Busiest, BusyChannel, Busyness, MOST_BUSIEST};
pub use channels::LogLimits;
pub(crate) use channels::{Channels, NotPublished, Published, TooManyChannels};
pub(crate) use feed::Fed;
pub(crate) use hold::Hold;
pub(crate) use keys::{MOST_KEYS, PublishId, Publisher};
pub(crate) use life::{Life, new_epoch};
pub(crate) use message::{LogMessage, Origin};
pub(crate) use name::{BadChannelName, ChannelName};
pub(crate) use namespaces::Namespaces;
pub use namespaces::{ChannelRules, Namespace};
pub(crate) use occupancy::{Occupancy, OccupancySink};
pub(crate) use pattern::overlap;
pub(crate) use presence::{Member, MemberPhase, Present};
pub(crate) use record::LogRecord;
pub(crate) use restored::Refill;
pub(crate) use snapshot::{LogsWritten, RestoredLogs};
pub(crate) use state::{Channel, ChannelView, HistoryMessage, HistoryPart, Retired};
pub(crate) use subscribers::{Subscriber, SubscriberKey};

#[cfg(test)]
mod busiest_tests;
#[cfg(test)]
mod fan_out_tests;
#[cfg(test)]
mod keys_tests;
#[cfg(test)]
mod tests;
