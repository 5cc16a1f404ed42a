//! Channels: named message streams, each with a bounded log, and their subscribers.
//!
//! Delivery is pull-based. A publish appends to the log and wakes the subscribers that have read to its end;
//! each then reads from its own cursor, as fast as its socket accepts data. A slow or suspended session
//! therefore costs no more than its cursor.
//!
//! A pattern (`/a/*`) is a channel that cannot be published to directly. While it has subscribers, and for
//! some time afterwards, its log receives the messages published to the channels it matches.
//!
//! Channels know their subscribers only through the [`Subscriber`] trait. An [engine](crate::engine), outside
//! this module, decides what is appended.

mod append;
mod budget;
mod busiest;
mod channels;
mod epoch;
mod fan_out;
mod feed;
mod guard;
mod history;
mod idle;
mod kept_positions;
mod loading;
mod log;
mod message;
mod name;
mod namespaces;
mod occupancy;
mod pattern;
mod presence;
mod publish;
mod publish_ids;
mod record;
mod replace;
mod retention;
mod snapshot;
mod state;
mod subscriber;
mod subscribers;
mod sweep;
mod table;

pub use busiest::{Busiest, BusyChannel, Busyness, MAX_BUSIEST};
pub use channels::Channels;
pub(crate) use epoch::LogEpoch;
pub use epoch::new_epoch;
pub(crate) use feed::FeedOutcome;
pub use guard::ChannelGuard;
pub use history::{HistoryLimit, HistoryMessage, HistoryPart};
pub(crate) use loading::LoadedMessage;
pub(crate) use log::MAX_JOINS_AND_LEAVES;
pub use message::{LogMessage, Origin};
pub use name::{ChannelName, InvalidChannelName};
pub use namespaces::{ChannelRules, LogLimits, Namespace, Namespaces};
pub use occupancy::{Occupancy, OccupancySink};
pub use pattern::overlap;
pub(crate) use presence::PresencePage;
pub use presence::{Member, MemberPhase};
pub use publish::{PublishError, Published};
pub(crate) use publish_ids::MAX_PUBLISH_IDS;
pub use publish_ids::{PublishId, Publisher};
pub use record::{LogRecord, PositionRecord};
pub use snapshot::{InvalidLog, LogsWritten, RestoredLogs};
pub use state::{Channel, ChannelView, Retired};
pub use subscriber::Subscriber;
pub use subscribers::SubscriberKey;
pub use table::TooManyChannels;

#[cfg(test)]
mod busiest_tests;
#[cfg(test)]
mod fan_out_tests;
#[cfg(test)]
mod publish_ids_tests;
#[cfg(test)]
mod tests;
