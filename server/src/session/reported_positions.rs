use std::fmt;

use encke_broker::channel::{Channel, ChannelName};
use encke_core::dialect::Since;
use ring::digest::{SHA256, digest};

/// Short form of a channel's name, for positions in event ids: a name may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelKey(u32);

/// Positions in channels that a client reports when it resumes its session. They are needed if the session's server
/// has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReportedPositions {
    #[default]
    None,
    /// The first frame will contain them.
    Announced,
    Known(Vec<(ChannelKey, Since<'static>)>),
}

impl ChannelKey {
    pub(crate) fn of(channel: &ChannelName) -> Self {
        Self::of_name(channel.as_str())
    }

    pub(crate) fn of_name(channel: &str) -> Self {
        let digest = digest(&SHA256, channel.as_bytes());
        let (first, _) = digest.as_ref().split_first_chunk().expect("a digest has 32 bytes");
        Self(u32::from_be_bytes(*first))
    }

    /// Parses the form that [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u32::from_str_radix(text, 16).ok().map(Self).filter(|parsed| parsed.to_string() == text)
    }
}

impl fmt::Display for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl ReportedPositions {
    /// Returns the offset of the last message of this log that the client has received. `None` if it is not known.
    pub(crate) fn offset_in<S: Copy>(&self, log: &Channel<S>) -> Option<u64> {
        let Self::Known(known) = self else { return None };
        let key = ChannelKey::of(log.name());
        let mut known = known.iter().filter(|(other, _)| *other == key).map(|(_, since)| since);
        // Two channels may have the same key.
        let since = known.next().filter(|_| known.next().is_none())?;
        log.continues_from(&since.epoch, since.offset).then_some(since.offset)
    }
}
