//! Positions of a client in the channels of its URL. Event ids contain them, so that the client can continue
//! in a new session if its old one has ended.

use std::io::Write;

use encke_broker::channel::{ChannelName, Origin};
use encke_core::dialect::{Since, StartPosition};

use crate::session::SubscribeOutcome;

/// Maximum number of channels in an event id. Streams of more channels have no positions in their ids, since
/// every event would repeat them.
const MAX_CHANNELS: usize = 8;

/// Maximum length of an epoch accepted from a client. Every event repeats it.
const MAX_EPOCH_BYTES: usize = 32;

/// An offset that no message has. A client that reconnects with this offset gets a gap.
const UNKNOWN_OFFSET: u64 = u64::MAX;

/// Event id that a client reconnects with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) token: String,
    pub(crate) seq: u64,
    /// Positions in the order of the URL's channels. Empty if the id contains no positions.
    pub(crate) positions: Vec<Option<Since<'static>>>,
}

impl EventId {
    /// Parses `<resume token>:<seq>[;<epoch>:<offset>,...]`. The position of a channel is empty if the
    /// session was not subscribed to it yet.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (session, positions) = match id.split_once(';') {
            Some((session, positions)) => (session, positions.split(',').map(parse_position).collect()),
            None => (id, Some(Vec::new())),
        };
        let (token, seq) = session.rsplit_once(':')?;
        // Accept the id even if its positions are malformed: the session may still be valid.
        let positions = positions.unwrap_or_default();
        Some(Self { token: token.to_owned(), seq: seq.parse().ok()?, positions })
    }
}

/// Parses the position in one channel. The outer `None` means that the position is malformed.
fn parse_position(text: &str) -> Option<Option<Since<'static>>> {
    if text.is_empty() {
        return Some(None);
    }
    let (epoch, offset) = text.split_once(':')?;
    let is_epoch = epoch.len() <= MAX_EPOCH_BYTES
        && epoch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let since = Since { epoch: epoch.to_owned().into(), offset: offset.parse().ok()? };
    is_epoch.then_some(Some(since))
}

/// Positions of one stream.
#[derive(Debug, Default)]
pub(super) struct Positions(Box<[ChannelPosition]>);

#[derive(Debug)]
struct ChannelPosition {
    channel: ChannelName,
    /// `None` until the session is subscribed to the channel.
    at: Option<LogPosition>,
}

#[derive(Debug)]
struct LogPosition {
    epoch: Box<str>,
    offset: u64,
}

impl Positions {
    pub(super) fn new(channels: &[ChannelName]) -> Self {
        let channels = if channels.len() <= MAX_CHANNELS { channels } else { &[] };
        Self(channels.iter().map(|channel| ChannelPosition { channel: channel.clone(), at: None }).collect())
    }

    /// Records that the session is subscribed to a channel, starting where the client asked. In a `recovered`
    /// session, the position of a client that has not given one is unknown.
    pub(super) fn start(
        &mut self,
        followed: &SubscribeOutcome,
        begin: StartPosition<'static>,
        recovered: bool,
    ) {
        let (epoch, offset) = match begin {
            StartPosition::After(Since { epoch, offset }) => (epoch.into(), offset),
            _ if recovered => (followed.channel.epoch().into(), UNKNOWN_OFFSET),
            _ => (followed.channel.epoch().into(), followed.start_offset),
        };
        if let Some(position) = self.find(followed.channel.name().as_str()) {
            position.at = Some(LogPosition { epoch, offset });
        }
    }

    /// Records that everything up to this message is being sent to the client.
    pub(super) fn advance(&mut self, channel: &str, epoch: &str, offset: u64) {
        let Some(position) = self.find(channel) else { return };
        match &mut position.at {
            Some(at) if *at.epoch == *epoch => at.offset = offset,
            at => *at = Some(LogPosition { epoch: epoch.into(), offset }),
        }
    }

    /// Does the same as [`Self::advance`] for a message that may have arrived through a pattern, if the
    /// message's channel is in the URL. A session sends the messages of a channel in order, regardless of
    /// which subscription delivers them.
    pub(super) fn advance_by_pattern(&mut self, Origin { channel, epoch, offset }: &Origin) {
        let at = self.find(channel.as_str()).and_then(|position| position.at.as_mut());
        if let Some(at) =
            at.filter(|at| *at.epoch == **epoch && (at.offset < *offset || at.offset == UNKNOWN_OFFSET))
        {
            at.offset = *offset;
        }
    }

    fn find(&mut self, channel: &str) -> Option<&mut ChannelPosition> {
        self.0.iter_mut().find(|position| position.channel.as_str() == channel)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (index, ChannelPosition { at, .. }) in self.0.iter().enumerate() {
            out.push(if index == 0 { b';' } else { b',' });
            if let Some(LogPosition { epoch, offset }) = at {
                write!(out, "{epoch}:{offset}").expect("writing to a Vec cannot fail");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(epoch: &'static str, offset: u64) -> Option<Since<'static>> {
        Some(Since { epoch: epoch.into(), offset })
    }

    #[test]
    fn event_ids_are_parsed() {
        let parse = |id: &str| EventId::parse(id).map(|id| (id.token, id.seq, id.positions));
        let read = |seq, positions| Some(("s_a.b".to_owned(), seq, positions));
        assert_eq!(
            parse("s_a.b:7"),
            read(7, vec![]),
            "from a stream with many channels, or from an older server"
        );
        assert_eq!(parse("s_a.b:7;e-_1:42,,x:0"), read(7, vec![since("e-_1", 42), None, since("x", 0)]));
        for garbled in ["s_a.b:7;e", "s_a.b:7;e:x", "s_a.b:7;e:1,\u{e9}:1", "s_a.b:7;e:1:2", "s_a.b:7;e:-1"] {
            assert_eq!(parse(garbled), read(7, vec![]), "{garbled}");
        }
        assert_eq!(parse(&format!("s_a.b:7;{}:1", "e".repeat(MAX_EPOCH_BYTES + 1))), read(7, vec![]));
        for id in ["", "7", "end", "s_a.b:", "s_a.b:x", "s_a.b:-1", ";e:1"] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    #[test]
    fn positions_are_written_as_they_are_read() {
        let name = |name: &str| ChannelName::new(name, 10).expect("a valid name");
        let text = |positions: &Positions| {
            let mut text = Vec::new();
            positions.write(&mut text);
            String::from_utf8(text).expect("epochs are UTF-8")
        };
        let mut positions = Positions::new(&[name("a"), name("b")]);
        assert_eq!(text(&positions), ";,");
        positions.advance("b", "e", 7);
        positions.advance("c", "e", 1);
        assert_eq!(text(&positions), ";,e:7");
        positions.advance("a", "e", 1);
        positions.advance("b", "f", 1);
        assert_eq!(text(&positions), ";e:1,f:1");
        assert_eq!(text(&Positions::new(&[])), "");
        let many: Vec<_> = (0..=MAX_CHANNELS).map(|number| name(&number.to_string())).collect();
        assert_eq!(text(&Positions::new(&many)), "");
        assert_eq!(text(&Positions::new(&many[1..])), ";,,,,,,,");
    }

    #[test]
    fn a_message_through_a_pattern_moves_the_position_of_its_channel_forward() {
        let channel = ChannelName::new("/a/b", 10).expect("a valid name");
        let mut positions = Positions::new(std::slice::from_ref(&channel));
        let after = |positions: &mut Positions, epoch: &str, offset| {
            positions.advance_by_pattern(&Origin { channel: channel.clone(), epoch: epoch.into(), offset });
            positions.find("/a/b").and_then(|position| Some(position.at.as_ref()?.offset))
        };
        assert_eq!(after(&mut positions, "e", 1), None, "the session is not subscribed to the channel yet");
        positions.advance("/a/b", "e", 3);
        assert_eq!(after(&mut positions, "e", 2), Some(3), "the channel delivered it already");
        assert_eq!(after(&mut positions, "f", 9), Some(3), "the position is in another epoch");
        assert_eq!(after(&mut positions, "e", 4), Some(4));
    }
}
