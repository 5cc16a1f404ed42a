//! Messages that report joins and leaves. Their data has no message number, so the simulation numbers them
//! when it observes them in the log of their channel.

use std::collections::VecDeque;

use encke_core::message::{ContentKind, SubscriberInfo};

/// Number of the newest notices remembered. A session may receive a message long after it was published.
const REMEMBERED: usize = 1 << 16;

/// Offset of a notice that only logs of patterns contain. Offsets start at 1.
pub(crate) const NOT_IN_CHANNEL: u64 = 0;

/// A join or a leave, as subscribers of the channel receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) channel: usize,
    pub(crate) has_left: bool,
    pub(crate) session: String,
    /// Time of publication, in milliseconds since 1970. Namespaces of a scenario that report joins and leaves
    /// include it in messages.
    pub(crate) at_ms: u64,
}

#[derive(Debug)]
struct PublishedNotice {
    notice: Notice,
    /// Offset in the log of the channel, or [`NOT_IN_CHANNEL`].
    offset: u64,
    number: u64,
}

/// The published joins and leaves of all channels, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Notices(VecDeque<PublishedNotice>);

impl Notice {
    /// Parses the data of a message. Returns `None` if it was published by a client or through the API.
    pub(crate) fn parse(channel: usize, kind: ContentKind, data: &str, at_ms: u64) -> Option<Self> {
        let session = serde_json::from_str::<SubscriberInfo<'_>>(data).ok()?.session.into_owned();
        let has_left = kind == ContentKind::Left;
        (kind != ContentKind::Data).then_some(Self { channel, has_left, session, at_ms })
    }
}

impl Notices {
    pub(crate) fn add(&mut self, notice: Notice, offset: u64, number: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(PublishedNotice { notice, offset, number });
    }

    /// Returns the number of the notice at this offset of its channel.
    pub(crate) fn number_at(&self, notice: &Notice, offset: u64) -> Option<u64> {
        self.0.iter().rev().find(|it| it.offset == offset && it.notice == *notice).map(|it| it.number)
    }

    /// Returns the numbers of all notices with this content, oldest first. A session may leave a channel
    /// twice within a millisecond.
    pub(crate) fn numbers_of(&self, notice: &Notice) -> impl Iterator<Item = u64> {
        self.0.iter().filter(move |it| it.notice == *notice).map(|it| it.number)
    }
}
