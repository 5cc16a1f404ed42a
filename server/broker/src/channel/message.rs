//! Messages as stored in channel logs.

use std::sync::Arc;

use encke_core::dialect::json::EncodedMessage;
use encke_core::session::outbox::LogPosition;

use super::name::ChannelName;

/// A message in a log.
#[derive(Clone, Debug)]
pub enum LogMessage {
    /// Stored in one log only.
    Own(EncodedMessage),
    /// Stored in the log of its channel and in the logs of matching patterns; all of them share the same
    /// bytes.
    Shared(Arc<SharedMessage>),
}

/// A message stored in several logs.
#[derive(Debug)]
pub struct SharedMessage {
    pub(super) encoded: EncodedMessage,
    pub(super) origin: Origin,
    /// Position in each log that contains the message, the channel's own log first.
    pub(super) positions: Box<[LogPosition]>,
}

/// Where a message was published.
#[derive(Clone, Debug)]
pub struct Origin {
    pub channel: ChannelName,
    pub epoch: Arc<str>,
    pub offset: u64,
}

impl LogMessage {
    /// Returns the message as encoded for all dialects.
    #[inline]
    pub fn encoded(&self) -> &EncodedMessage {
        match self {
            Self::Own(encoded) => encoded,
            Self::Shared(shared) => &shared.encoded,
        }
    }

    /// Returns the message's positions in all logs that share it, or an empty slice if no other log has it.
    #[inline]
    pub fn positions(&self) -> &[LogPosition] {
        match self {
            Self::Own(_) => &[],
            Self::Shared(shared) => &shared.positions,
        }
    }

    /// Returns where the message was published, or `None` if no other log contains it.
    #[inline]
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Own(_) => None,
            Self::Shared(shared) => Some(&shared.origin),
        }
    }

    /// Heap size in bytes, including bytes shared with other logs.
    #[inline]
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Own(encoded) => encoded.size(),
            Self::Shared(shared) => shared.size(),
        }
    }

    /// Drops the message and returns the number of bytes this freed.
    pub(super) fn drop_and_count_freed(self) -> usize {
        match self {
            Self::Own(encoded) => encoded.size(),
            // If several logs drop the message concurrently, exactly one of them gets the inner value.
            Self::Shared(shared) => Arc::into_inner(shared).map_or(0, |shared| shared.size()),
        }
    }
}

impl SharedMessage {
    fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.positions) + self.encoded.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log can hold millions of messages, so the enum must not be larger than its common variant.
    #[test]
    fn unshared_message_has_no_overhead() {
        assert_eq!(size_of::<LogMessage>(), size_of::<EncodedMessage>());
    }
}
