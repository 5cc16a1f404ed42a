//! Position of a Bayeux client in a log.

use crate::client::known_messages::KnownMessages;
use crate::truth::LogTruth;

/// State of a client's subscription to a channel or pattern.
#[derive(Clone, Debug, Default)]
pub(crate) enum BayeuxSubscription {
    #[default]
    Inactive,
    /// The subscribe has been sent. Holds the epoch and last offset of the log at that time.
    Requested(String, u64),
    /// An unsubscribe is pending or was lost.
    Unknown,
    /// Replies no longer show the state: the client subscribed again before all replies to its unsubscribes had
    /// arrived, or a subscribe was lost, which the server may still read after an unsubscribe.
    Uncertain,
    Active(BayeuxLogPosition),
}

/// Position of a client in a log. The server does not say where a subscription starts; it is between `low`
/// and `high`.
#[derive(Clone, Debug)]
pub(crate) struct BayeuxLogPosition {
    pub(super) epoch: String,
    /// Last offset when the client sent the subscribe.
    pub(super) low: u64,
    /// Last offset when the server answered.
    pub(super) high: u64,
    /// Offset of the last message received.
    pub(super) up_to: u64,
    /// Offset of the last message received up to and including the last answer.
    pub(super) answered: u64,
}

impl BayeuxSubscription {
    /// Records the reply to a subscribe, with the state of the log at that time.
    pub(super) fn subscribed(&mut self, epoch: String, last: u64) {
        let Self::Requested(requested_epoch, low) = self else { return };
        let low = if *requested_epoch == epoch { *low } else { 0 };
        *self = Self::Active(BayeuxLogPosition { epoch, low, high: last, up_to: low, answered: low });
    }

    /// Records the reply to an unsubscribe. If several unsubscribes were pending, the client may have subscribed
    /// again after the first reply.
    pub(super) fn unsubscribed(&mut self) {
        *self = match self {
            Self::Requested(..) | Self::Active(_) | Self::Uncertain => Self::Uncertain,
            Self::Inactive | Self::Unknown => Self::Inactive,
        };
    }

    pub(super) fn lose_position(&mut self) {
        if let Self::Active(_) = self {
            *self = Self::Unknown;
        }
    }
}

impl BayeuxLogPosition {
    /// Returns the offset of the first message up to `last` that the client should know but does not.
    pub(super) fn first_missing(&self, last: u64, log: &LogTruth, known: &KnownMessages) -> Option<u64> {
        (self.up_to.max(self.high) + 1..=last).find(|offset| !known.covers(log, *offset))
    }
}
