//! A message as logs keep it.

use std::sync::Arc;

use encke_core::encodings::Encodings;
use encke_core::session::outbox::Place;

use super::name::ChannelName;

/// One of a log's messages.
#[derive(Clone, Debug)]
pub(crate) enum LogMessage {
    /// In no other log.
    Own(Encodings),
    /// In the log of its channel, and in those of patterns: all have the same bytes.
    Shared(Arc<SharedMessage>),
}

/// A message that is in several logs.
#[derive(Debug)]
pub(crate) struct SharedMessage {
    pub(super) encodings: Encodings,
    pub(super) origin: Origin,
    /// In all logs that got it, its channel's first.
    pub(super) places: Box<[Place]>,
}

/// Where a message was published.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) channel: ChannelName,
    pub(crate) epoch: Arc<str>,
    pub(crate) offset: u64,
}

impl LogMessage {
    /// The message in each dialect.
    pub(crate) fn encodings(&self) -> &Encodings {
        match self {
            Self::Own(encodings) => encodings,
            Self::Shared(shared) => &shared.encodings,
        }
    }

    /// Where else it is, and here.
    pub(crate) fn places(&self) -> &[Place] {
        match self {
            Self::Own(_) => &[],
            Self::Shared(shared) => &shared.places,
        }
    }

    /// Where it was published, if that may have been in another log.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Own(_) => None,
            Self::Shared(shared) => Some(&shared.origin),
        }
    }

    /// The memory it takes beside the struct, in bytes, by itself or together with other logs.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Own(encodings) => encodings.size(),
            Self::Shared(shared) => shared.size(),
        }
    }

    /// The memory that is free when it is dropped here, in bytes.
    pub(super) fn size_if_last(self) -> usize {
        match self {
            Self::Own(encodings) => encodings.size(),
            // Of several logs that drop it at once, one gets it.
            Self::Shared(shared) => Arc::into_inner(shared).map_or(0, |shared| shared.size()),
        }
    }
}

impl SharedMessage {
    fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.places) + self.encodings.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log holds millions.
    #[test]
    fn a_message_that_is_not_shared_costs_nothing_more() {
        assert_eq!(size_of::<LogMessage>(), size_of::<Encodings>());
    }
}
