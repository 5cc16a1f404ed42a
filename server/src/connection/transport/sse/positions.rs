//! Positions of a client in the channels of its URL. Event ids contain them, so that the client can continue
//! in a new session if its old one has ended.

use std::fmt;
use std::io::Write;

use encke_broker::channel::{ChannelName, Origin};
use encke_core::dialect::{Since, StartPosition};
use ring::digest::{SHA256, digest};

use crate::session::SubscribeOutcome;

/// Maximum number of bytes of the positions in an event id. Every event repeats them. Channels whose positions
/// do not fit get a gap in a new session.
const MAX_BYTES: usize = 2_000;

/// Maximum length of an epoch accepted from a client. Every event repeats it.
const MAX_EPOCH_BYTES: usize = 32;

/// An offset that no message has. A client that reconnects with this offset gets a gap.
const UNKNOWN_OFFSET: u64 = u64::MAX;

/// Entry of an id that stands for the channels whose positions do not fit.
const OTHERS: &str = "*";

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
    /// Whether the client has been following other channels, too.
    pub(crate) has_others: bool,
}

/// Short form of a channel's name: the order of the channels in the URL may have changed, and a name may be
/// long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelKey(u32);

impl ChannelKey {
    pub(crate) fn of(channel: &ChannelName) -> Self {
        let digest = digest(&SHA256, channel.as_str().as_bytes());
        let (first, _) = digest.as_ref().split_first_chunk().expect("a digest has 32 bytes");
        Self(u32::from_be_bytes(*first))
    }
}

impl fmt::Display for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl EventId {
    /// Parses `<resume token>:<seq>;<channel key>:<epoch>:<offset>,...,*`. The session may still be valid if
    /// the positions are missing or malformed, so such an id is accepted, but all positions are unknown.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (session, positions) = id.split_once(';').unwrap_or((id, OTHERS));
        let (token, seq) = session.rsplit_once(':')?;
        let positions = ClientPositions::parse(positions)
            .unwrap_or(ClientPositions { known: Vec::new(), has_others: true });
        Some(Self { token: token.to_owned(), seq: seq.parse().ok()?, positions })
    }
}

impl ClientPositions {
    /// Positions of a client that has not been following any channel.
    pub(crate) const NONE: Self = Self { known: Vec::new(), has_others: false };

    fn parse(text: &str) -> Option<Self> {
        let (known, has_others) = match text.strip_suffix(OTHERS) {
            Some(known) => (known.strip_suffix(',').unwrap_or(known), true),
            None => (text, false),
        };
        let known = known.split(',').filter(|entry| !entry.is_empty()).map(parse_position);
        Some(Self { known: known.collect::<Option<_>>()?, has_others })
    }

    /// Returns where to begin in a channel of a new session: after the client's position, or with this many of
    /// the newest messages. Before these, a client that may have missed messages gets a gap.
    pub(super) fn begin(&self, channel: &ChannelName, last: u64) -> StartPosition<'static> {
        let key = ChannelKey::of(channel);
        let mut known = self.known.iter().filter(|(other, _)| *other == key);
        match (known.next(), known.next()) {
            (Some((_, since)), None) => StartPosition::After(since.clone()),
            (None, _) if !self.has_others => StartPosition::Newest(last),
            // Two channels with the same key cannot be distinguished.
            _ => StartPosition::Unknown(last),
        }
    }
}

fn parse_position(text: &str) -> Option<(ChannelKey, Since<'static>)> {
    let (key, position) = text.split_once(':')?;
    let (epoch, offset) = position.split_once(':')?;
    let is_epoch = epoch.len() <= MAX_EPOCH_BYTES
        && epoch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let key = u32::from_str_radix(key, 16).ok().map(ChannelKey).filter(|parsed| parsed.to_string() == key);
    let since = Since { epoch: epoch.to_owned().into(), offset: offset.parse().ok()? };
    is_epoch.then_some((key?, since))
}

/// Positions of one stream.
#[derive(Debug, Default)]
pub(super) struct Positions(Box<[ChannelPosition]>);

#[derive(Debug)]
struct ChannelPosition {
    channel: ChannelName,
    key: ChannelKey,
    /// `None` until the session is subscribed to the channel.
    at: Option<LogPosition>,
    /// Position once the client has received the gap with which the subscription begins.
    after_gap: Option<LogPosition>,
}

#[derive(Debug)]
struct LogPosition {
    epoch: Box<str>,
    offset: u64,
}

impl Positions {
    pub(super) fn new(channels: &[ChannelName]) -> Self {
        let position = |channel: &ChannelName| ChannelPosition {
            channel: channel.clone(),
            key: ChannelKey::of(channel),
            at: None,
            after_gap: None,
        };
        Self(channels.iter().map(position).collect())
    }

    /// Records that the session is subscribed to a channel, starting where the client asked. If it was
    /// subscribed before, the position of a client that has not given one is unknown.
    pub(super) fn start(&mut self, followed: &SubscribeOutcome, begin: StartPosition<'static>) {
        let own = |offset| LogPosition { epoch: followed.channel.epoch().into(), offset };
        let Some(position) = self.find(followed.channel.name().as_str()) else { return };
        position.at = Some(match begin {
            StartPosition::After(Since { epoch, offset }) => LogPosition { epoch: epoch.into(), offset },
            StartPosition::Unknown(_) => own(UNKNOWN_OFFSET),
            _ if !followed.is_new => own(UNKNOWN_OFFSET),
            _ => own(followed.start_offset),
        });
        position.after_gap = (followed.recovered == Some(false)).then(|| own(followed.start_offset));
    }

    /// Records that the client is being sent a gap without range.
    pub(super) fn advance_by_gap(&mut self, channel: &str) {
        if let Some(position) = self.find(channel)
            && let Some(after) = position.after_gap.take()
        {
            position.at = Some(after);
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
        out.push(b';');
        let begin = out.len();
        for ChannelPosition { key, at, .. } in &self.0 {
            let Some(LogPosition { epoch, offset }) = at else { continue };
            let before = out.len();
            if before > begin {
                out.push(b',');
            }
            write!(out, "{key}:{epoch}:{offset}").expect("writing to a Vec cannot fail");
            if out.len() > begin + MAX_BYTES {
                out.truncate(before);
                out.extend_from_slice(if before > begin { b",*" } else { b"*" });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ChannelName {
        ChannelName::new(name, 255).expect("a valid name")
    }

    fn since(epoch: &'static str, offset: u64) -> Since<'static> {
        Since { epoch: epoch.into(), offset }
    }

    #[test]
    fn event_ids_are_parsed() {
        let parse = |id: &str| {
            EventId::parse(id).map(
                |EventId { token, seq, positions: ClientPositions { known, has_others } }| {
                    (
                        token,
                        seq,
                        known.into_iter().map(|(key, since)| (key.0, since)).collect::<Vec<_>>(),
                        has_others,
                    )
                },
            )
        };
        let read = |known, has_others| Some(("s_a.b".to_owned(), 7, known, has_others));
        assert_eq!(parse("s_a.b:7;"), read(vec![], false), "from a stream without channels");
        let one = || (0xff, since("e-_1", 42));
        assert_eq!(parse("s_a.b:7;000000ff:e-_1:42"), read(vec![one()], false));
        assert_eq!(
            parse("s_a.b:7;000000ff:e-_1:42,12345678:x:0,*"),
            read(vec![one(), (0x1234_5678, since("x", 0))], true)
        );
        for garbled in [
            "s_a.b:7",
            "s_a.b:7;*",
            "s_a.b:7;e:1",
            "s_a.b:7;000000ff:e",
            "s_a.b:7;000000ff:e:x",
            "s_a.b:7;000000ff:\u{e9}:1",
            "s_a.b:7;000000ff:e:1:2",
            "s_a.b:7;000000ff:e:-1",
            "s_a.b:7;ff:e:1",
            "s_a.b:7;000000FF:e:1",
            &format!("s_a.b:7;000000ff:{}:1", "e".repeat(MAX_EPOCH_BYTES + 1)),
        ] {
            assert_eq!(parse(garbled), read(vec![], true), "{garbled}");
        }
        for id in ["", "7", "end", "s_a.b:", "s_a.b:x", "s_a.b:-1", ";000000ff:e:1"] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    /// The channels of the URL may have changed since the id was written.
    #[test]
    fn positions_belong_to_channels() {
        let mut positions = Positions::new(&["a", "b", "c"].map(name));
        positions.advance("b", "e", 7);
        positions.advance("a", "f", 1);
        positions.advance("d", "e", 1);
        let mut text = Vec::new();
        positions.write(&mut text);
        let text = format!("s_a.b:7{}", str::from_utf8(&text).expect("epochs are UTF-8"));
        let known = EventId::parse(&text).expect("it was just written").positions;
        let begin = |channel| known.begin(&name(channel), 3);
        assert_eq!(begin("a"), StartPosition::After(since("f", 1)));
        assert_eq!(begin("b"), StartPosition::After(since("e", 7)));
        assert_eq!(begin("c"), StartPosition::Newest(3), "it was not subscribed to");
        let unknown = EventId::parse("s_a.b:7").expect("an id").positions;
        assert_eq!(unknown.begin(&name("a"), 3), StartPosition::Unknown(3));
        let twice =
            ClientPositions { known: [&known.known[..1], &known.known[..1]].concat(), has_others: false };
        assert_eq!(twice.begin(&name("a"), 0), StartPosition::Unknown(0));
    }

    #[test]
    fn positions_that_do_not_fit_are_unknown() {
        let names: Vec<_> = (0..128).map(|number| name(&format!("channel {number}"))).collect();
        let mut positions = Positions::new(&names);
        names.iter().for_each(|name| positions.advance(name.as_str(), "0123456789a", u64::MAX));
        let mut text = b"s_a.b:7".to_vec();
        positions.write(&mut text);
        assert!((1_900..2_020).contains(&text.len()), "{}", text.len());
        let known = EventId::parse(str::from_utf8(&text).expect("UTF-8")).expect("an id").positions;
        let begins: Vec<_> = names.iter().map(|name| known.begin(name, 0)).collect();
        let exact = begins.iter().take_while(|begin| matches!(begin, StartPosition::After(_))).count();
        assert_eq!(exact, 47);
        assert!(begins[exact..].iter().all(|begin| *begin == StartPosition::Unknown(0)));
    }

    #[test]
    fn a_message_through_a_pattern_moves_the_position_of_its_channel_forward() {
        let channel = name("/a/b");
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
