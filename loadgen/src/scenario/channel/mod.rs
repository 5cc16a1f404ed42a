//! What the scenarios about messages share: the subscribers of one channel and a publisher.

mod ledger;
mod numbering;
mod publisher;
mod round;
mod schedule;
mod subscriber;
mod subscribers;
mod tally;

pub(super) use self::ledger::{Arrival, Ledger};
pub(super) use self::round::Round;
pub(super) use self::schedule::Schedule;
pub(super) use self::subscriber::Subscriber;
pub(super) use self::subscribers::{Concurrent, ConnectionsOutcome, Subscribers, SubscribersOutcome};
