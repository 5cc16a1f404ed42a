//! What the scenarios about messages have in common: subscribers of one channel, and someone who publishes to it.

mod audience;
mod course;
mod ledger;
mod numbering;
mod publisher;
mod round;
mod subscriber;
mod tally;

pub(super) use self::audience::{Audience, Others};
pub(super) use self::round::Round;
pub(super) use self::subscriber::Subscriber;
