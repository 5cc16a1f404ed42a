//! How far a client has come in the channels of its URL. Its event ids carry it, so that it can go on in a new session when its
//! old one is gone.

use std::io::Write;

use encke_core::dialect::{Beginning, Since};

use crate::channel::{ChannelName, Origin};
use crate::session::Subscribed;

/// Streams of more channels have none: each event would repeat them.
const MOST_CHANNELS: usize = 8;

/// The longest epoch that is taken from a client, who gets it back with every event.
const LONGEST_EPOCH: usize = 32;

/// An offset that no message has: whoever comes back with it is told of a gap.
const UNKNOWN: u64 = u64::MAX;

/// The id of an event, as a client comes back with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) token: String,
    pub(crate) seq: u64,
    /// In the order of the URL's channels; empty if the id has none.
    pub(crate) positions: Vec<Option<Since<'static>>>,
}

impl EventId {
    /// Reads `<resume token>:<seq>[;<epoch>:<offset>,...]`. A channel that was not followed yet has no position.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (session, positions) = match id.split_once(';') {
            Some((session, positions)) => (session, positions.split(',').map(position).collect()),
            None => (id, Some(Vec::new())),
        };
        let (token, seq) = session.rsplit_once(':')?;
        // A client that garbled them has a session all the same.
        let positions = positions.unwrap_or_default();
        Some(Self { token: token.to_owned(), seq: seq.parse().ok()?, positions })
    }
}

/// `None` if it is none.
fn position(text: &str) -> Option<Option<Since<'static>>> {
    if text.is_empty() {
        return Some(None);
    }
    let (epoch, offset) = text.split_once(':')?;
    let is_epoch = epoch.len() <= LONGEST_EPOCH
        && epoch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let since = Since { epoch: epoch.to_owned().into(), offset: offset.parse().ok()? };
    is_epoch.then_some(Some(since))
}

/// The positions of one stream.
#[derive(Debug, Default)]
pub(super) struct Positions(Box<[Position]>);

#[derive(Debug)]
struct Position {
    channel: ChannelName,
    /// `None` until the channel is followed.
    at: Option<At>,
}

#[derive(Debug)]
struct At {
    epoch: Box<str>,
    offset: u64,
}

impl Positions {
    pub(super) fn new(channels: &[ChannelName]) -> Self {
        let channels = if channels.len() <= MOST_CHANNELS { channels } else { &[] };
        Self(channels.iter().map(|channel| Position { channel: channel.clone(), at: None }).collect())
    }

    /// A channel is followed, from where its client asked for. A `recovered` session whose client has not said what it has follows it from
    /// where nobody here knows.
    pub(super) fn follow(&mut self, followed: &Subscribed, begin: Beginning<'static>, recovered: bool) {
        let (epoch, offset) = match begin {
            Beginning::After(Since { epoch, offset }) => (epoch.into(), offset),
            _ if recovered => (followed.channel.epoch().into(), UNKNOWN),
            _ => (followed.channel.epoch().into(), followed.begun),
        };
        if let Some(position) = self.of(followed.channel.name().as_str()) {
            position.at = Some(At { epoch, offset });
        }
    }

    /// The client is sent what leads up to this message.
    pub(super) fn advance(&mut self, channel: &str, epoch: &str, offset: u64) {
        let Some(position) = self.of(channel) else { return };
        match &mut position.at {
            Some(at) if *at.epoch == *epoch => at.offset = offset,
            at => *at = Some(At { epoch: epoch.into(), offset }),
        }
    }

    /// The same, for a channel of the URL whose message may have come by a pattern. A session sends the messages of a channel in their
    /// order, whatever brings them.
    pub(super) fn advance_by_pattern(&mut self, Origin { channel, epoch, offset }: &Origin) {
        let at = self.of(channel.as_str()).and_then(|position| position.at.as_mut());
        if let Some(at) =
            at.filter(|at| *at.epoch == **epoch && (at.offset < *offset || at.offset == UNKNOWN))
        {
            at.offset = *offset;
        }
    }

    fn of(&mut self, channel: &str) -> Option<&mut Position> {
        self.0.iter_mut().find(|position| position.channel.as_str() == channel)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (index, Position { at, .. }) in self.0.iter().enumerate() {
            out.push(if index == 0 { b';' } else { b',' });
            if let Some(At { epoch, offset }) = at {
                write!(out, "{epoch}:{offset}").expect("memory takes everything");
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
    fn ids_are_read() {
        let parse = |id: &str| EventId::parse(id).map(|id| (id.token, id.seq, id.positions));
        let read = |seq, positions| Some(("s_a.b".to_owned(), seq, positions));
        assert_eq!(parse("s_a.b:7"), read(7, vec![]), "of a stream of many channels, or of an older server");
        assert_eq!(parse("s_a.b:7;e-_1:42,,x:0"), read(7, vec![since("e-_1", 42), None, since("x", 0)]));
        for garbled in ["s_a.b:7;e", "s_a.b:7;e:x", "s_a.b:7;e:1,\u{e9}:1", "s_a.b:7;e:1:2", "s_a.b:7;e:-1"] {
            assert_eq!(parse(garbled), read(7, vec![]), "{garbled}");
        }
        assert_eq!(parse(&format!("s_a.b:7;{}:1", "e".repeat(LONGEST_EPOCH + 1))), read(7, vec![]));
        for id in ["", "7", "end", "s_a.b:", "s_a.b:x", "s_a.b:-1", ";e:1"] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    #[test]
    fn positions_are_written_as_they_are_read() {
        let name = |name: &str| ChannelName::new(name, 10).expect("a good name");
        let text = |positions: &Positions| {
            let mut text = Vec::new();
            positions.write(&mut text);
            String::from_utf8(text).expect("epochs are text")
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
        let many: Vec<_> = (0..=MOST_CHANNELS).map(|number| name(&number.to_string())).collect();
        assert_eq!(text(&Positions::new(&many)), "");
        assert_eq!(text(&Positions::new(&many[1..])), ";,,,,,,,");
    }
}
