//! Positions of a client in the channels that its stream delivers. Event ids contain them, so that the client
//! can continue in a new session if its old one has ended.
//!
//! A position is omitted only if the id says so (`*`). An id therefore also repeats the positions in the client's
//! own id for channels that the stream does not deliver: a later URL may name them again.

use std::io::Write;

use encke_broker::channel::{ChannelName, Origin};
use encke_core::dialect::{Since, StartPosition};

use crate::session::{ChannelKey, SubscribeOutcome};

/// Maximum number of bytes of the positions in an event id. Every event repeats them. Channels whose positions
/// do not fit get a gap in a new session.
const MAX_BYTES: usize = 2_000;

/// Number of channels at which a stream stops adding others. Its URL and the client's id may name more. Not all
/// of them fit into an id.
const MAX_CHANNELS: usize = 128;

/// Maximum length of an epoch accepted from a client. Every event repeats it.
const MAX_EPOCH_BYTES: usize = 32;

/// An offset that no message has. A client that reconnects with this offset gets a gap.
const UNKNOWN_OFFSET: u64 = u64::MAX;

/// Entry of an id that stands for the channels whose positions do not fit.
const OTHERS: &str = "*";

/// End of the positions in an id. An id without it has been truncated, or has the format of earlier versions.
/// Entries do not contain it.
const END: &str = ".";

/// Event id that a client reconnects with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) token: String,
    pub(crate) seq: u64,
    pub(crate) positions: ClientPositions,
}

/// Positions that a client reconnects with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientPositions {
    pub(crate) known: Vec<(ChannelKey, Since<'static>)>,
    /// Whether the client may have been following other channels, too.
    pub(crate) has_others: bool,
}

impl EventId {
    /// Parses `<resume token>:<seq>;<channel key>:<epoch>:<offset>,...,*.`. The session may still be valid if
    /// the positions are missing, truncated or malformed, so such an id is accepted, but all positions are
    /// unknown.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (session, positions) = id.split_once(';').unwrap_or((id, ""));
        let (token, seq) = session.rsplit_once(':')?;
        let positions = positions.strip_suffix(END).and_then(ClientPositions::parse);
        let positions = positions.unwrap_or(ClientPositions::UNKNOWN);
        Some(Self { token: token.to_owned(), seq: seq.parse().ok()?, positions })
    }
}

impl ClientPositions {
    /// Positions of a client that has not been following any channel.
    pub(crate) const NONE: Self = Self { known: Vec::new(), has_others: false };

    /// Positions of a client with an unusable id: it has had a stream, but of unknown channels.
    pub(crate) const UNKNOWN: Self = Self { known: Vec::new(), has_others: true };

    fn parse(text: &str) -> Option<Self> {
        let (known, has_others) = match text.strip_suffix(OTHERS) {
            Some(known) => (known.strip_suffix(',').unwrap_or(known), true),
            // The client may have subscribed to channels after the event with this id.
            None => (text, text.is_empty()),
        };
        // Every event of the new stream repeats the entries.
        if known.len() > MAX_BYTES {
            return None;
        }
        let known = known.split(',').filter(|entry| !entry.is_empty()).map(parse_position);
        Some(Self { known: known.collect::<Option<_>>()?, has_others })
    }

    /// Returns where to begin in a channel of a new session: after the client's position, or with this many of
    /// the newest messages. Before these, a client that may have missed messages gets a gap.
    pub(super) fn begin(&self, channel: &ChannelName, last: u64) -> StartPosition<'static> {
        let key = ChannelKey::of(channel);
        match self.find(key) {
            Some(since) => StartPosition::After(since.clone()),
            None if self.has_others || self.has_entry(key) => StartPosition::Unknown(last),
            None => StartPosition::Newest(last),
        }
    }

    /// Returns the position in the channel with this key. `None` if there is no such position, or several, which
    /// cannot be distinguished.
    fn find(&self, key: ChannelKey) -> Option<&Since<'static>> {
        let mut known = self.known.iter().filter(|(other, _)| *other == key);
        let (_, since) = known.next()?;
        known.next().is_none().then_some(since)
    }

    fn has_entry(&self, key: ChannelKey) -> bool {
        self.known.iter().any(|(other, _)| *other == key)
    }
}

fn parse_position(text: &str) -> Option<(ChannelKey, Since<'static>)> {
    let (key, position) = text.split_once(':')?;
    let (epoch, offset) = position.split_once(':')?;
    let is_epoch = epoch.len() <= MAX_EPOCH_BYTES
        && epoch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let key = ChannelKey::parse(key);
    // `parse` would accept a sign.
    let has_only_digits = offset.bytes().all(|byte| byte.is_ascii_digit());
    let since = Since { epoch: epoch.to_owned().into(), offset: offset.parse().ok()? };
    (is_epoch && has_only_digits).then_some((key?, since))
}

/// Positions of one stream.
#[derive(Debug, Default)]
pub(super) struct Positions(Box<StreamPositions>);

#[derive(Debug, Default)]
struct StreamPositions {
    /// The channels of the URL, then the others.
    channels: Vec<ChannelPosition>,
    /// Whether the client may have been following channels that are not listed.
    has_others: bool,
    /// Number of channels at which no others are added. At least the number of those in the URL.
    limit: usize,
}

#[derive(Debug)]
struct ChannelPosition {
    /// Key of the name by which the client knows the channel.
    key: ChannelKey,
    /// Name of the channel that the session reads, which the backend may have chosen. `None` if only the client's
    /// id names the channel, and this stream has delivered nothing of it.
    channel: Option<ChannelName>,
    /// `None` if the client has no position in the channel, and is not subscribed to it yet.
    at: Option<LogPosition>,
    /// Position once the client has received the gap with which the subscription begins.
    after_gap: Option<LogPosition>,
}

#[derive(Debug)]
struct LogPosition {
    epoch: Box<str>,
    offset: u64,
}

impl From<Since<'_>> for LogPosition {
    fn from(Since { epoch, offset }: Since<'_>) -> Self {
        Self { epoch: epoch.into(), offset }
    }
}

impl Positions {
    /// Creates the positions of a stream: the channels of the URL, and all positions in the client's id. A stream
    /// whose URL has no channels has no positions, because such a URL cannot open a new session, and every event
    /// would be longer.
    pub(super) fn new(channels: &[ChannelName], client: &ClientPositions) -> Self {
        if channels.is_empty() {
            return Self(Box::new(StreamPositions { has_others: true, ..StreamPositions::default() }));
        }
        let limit = MAX_CHANNELS.max(channels.len());
        let requested = channels.iter().map(|channel| (ChannelKey::of(channel), Some(channel.clone())));
        let requested = requested.map(|(key, channel)| (key, channel, client.find(key)));
        let mut channels: Vec<_> = requested.map(ChannelPosition::new).collect();
        for (key, since) in &client.known {
            let is_listed = channels.iter().any(|listed| listed.key == *key);
            if !is_listed {
                channels.push(ChannelPosition::new((*key, None, Some(since))));
            }
        }
        Self(Box::new(StreamPositions { channels, has_others: client.has_others, limit }))
    }

    /// Records that the session is subscribed to a channel, which the URL calls `requested`, starting where
    /// the client asked. If it was subscribed before, the position of a client that has not given one is
    /// unknown.
    pub(super) fn start(
        &mut self,
        requested: &ChannelName,
        followed: &SubscribeOutcome,
        begin: StartPosition<'static>,
    ) {
        let own = |offset| LogPosition { epoch: followed.channel.epoch().into(), offset };
        let key = ChannelKey::of(requested);
        let Some(position) = self.0.channels.iter_mut().find(|position| position.key == key) else { return };
        position.channel = Some(followed.channel.name().clone());
        position.at = Some(match begin {
            StartPosition::After(since) => since.into(),
            StartPosition::Unknown(_) => own(UNKNOWN_OFFSET),
            _ if !followed.is_new => own(UNKNOWN_OFFSET),
            _ => own(followed.start_offset),
        });
        position.after_gap = (followed.recovered == Some(false)).then(|| own(followed.start_offset));
    }

    /// Records the channels that the session is subscribed to, each with its epoch. The position in a channel
    /// that is neither in the URL nor in the client's id is unknown until the stream delivers a message of it.
    /// Returns whether the client's last id lacks any of the channels.
    pub(super) fn add_subscriptions<'a>(
        &mut self,
        channels: impl Iterator<Item = (&'a ChannelName, &'a str)>,
    ) -> bool {
        let (had_others, mut has_new) = (self.0.has_others, false);
        for (channel, epoch) in channels {
            if let Some(position) = self.entry(channel)
                && position.at.is_none()
            {
                position.at = Some(LogPosition { epoch: epoch.into(), offset: UNKNOWN_OFFSET });
                has_new = true;
            }
        }
        has_new || self.0.has_others != had_others
    }

    /// Records that the client is being sent a gap without range.
    pub(super) fn advance_by_gap(&mut self, channel: &ChannelName) {
        if let Some(position) = self.entry(channel)
            && let Some(after) = position.after_gap.take()
        {
            position.at = Some(after);
        }
    }

    /// Records that everything up to this message is being sent to the client.
    pub(super) fn advance(&mut self, channel: &ChannelName, epoch: &str, offset: u64) {
        let Some(position) = self.entry(channel) else { return };
        match &mut position.at {
            Some(at) if *at.epoch == *epoch => at.offset = offset,
            at => *at = Some(LogPosition { epoch: epoch.into(), offset }),
        }
    }

    /// Does the same as [`Self::advance`] for a message that may have arrived through a pattern, if the
    /// session is subscribed to the message's channel. A session sends the messages of a channel in order,
    /// regardless of which subscription delivers them.
    pub(super) fn advance_by_pattern(&mut self, Origin { channel, epoch, offset }: &Origin) {
        let at = self.find(channel).and_then(|found| self.0.channels[found].at.as_mut());
        if let Some(at) =
            at.filter(|at| *at.epoch == **epoch && (at.offset < *offset || at.offset == UNKNOWN_OFFSET))
        {
            at.offset = *offset;
        }
    }

    fn find(&self, channel: &ChannelName) -> Option<usize> {
        self.0.channels.iter().position(|position| position.channel.as_ref() == Some(channel))
    }

    /// Returns the entry of a channel, after adding it if necessary. `None` if there are too many, or if
    /// clients cannot request the channel by its name.
    fn entry(&mut self, channel: &ChannelName) -> Option<&mut ChannelPosition> {
        if let Some(found) = self.find(channel) {
            return Some(&mut self.0.channels[found]);
        }
        if channel.is_direct() {
            return None;
        }
        let key = ChannelKey::of(channel);
        let StreamPositions { channels, has_others, limit } = &mut *self.0;
        let named_by_id =
            channels.iter().position(|position| position.channel.is_none() && position.key == key);
        let index = named_by_id.unwrap_or(channels.len());
        if index == channels.len() {
            if index >= *limit {
                *has_others = true;
                return None;
            }
            channels.push(ChannelPosition::new((key, None, None)));
        }
        channels[index].channel = Some(channel.clone());
        Some(&mut channels[index])
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b';');
        let begin = out.len();
        let mut has_others = self.0.has_others;
        for ChannelPosition { key, at, .. } in &self.0.channels {
            let Some(LogPosition { epoch, offset }) = at else { continue };
            let before = out.len();
            if before > begin {
                out.push(b',');
            }
            write!(out, "{key}:{epoch}:{offset}").expect("writing to a Vec cannot fail");
            if out.len() > begin + MAX_BYTES {
                out.truncate(before);
                has_others = true;
                break;
            }
        }
        if has_others {
            out.extend_from_slice(if out.len() > begin { b",*" } else { b"*" });
        }
        out.extend_from_slice(END.as_bytes());
    }
}

impl ChannelPosition {
    fn new((key, channel, since): (ChannelKey, Option<ChannelName>, Option<&Since<'static>>)) -> Self {
        Self { key, channel, at: since.cloned().map(LogPosition::from), after_gap: None }
    }
}

#[cfg(test)]
mod tests;
