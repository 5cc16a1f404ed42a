//! Subscribers of a channel and a publisher, shared by the scenarios that publish messages.

mod ledger;
mod numbering;
mod publisher;
mod round;
mod schedule;
mod subscriber;
mod subscribers;
mod tally;

pub(super) use self::ledger::{Arrival, Ledger};
pub(super) use self::round::PublishRound;
pub(super) use self::schedule::Schedule;
pub(super) use self::subscriber::Subscriber;
pub(super) use self::subscribers::{ConcurrentWork, ConnectionsOutcome, SubscriberGroup, SubscribersOutcome};
