//! All that a client knows of its session: what it has received, and what it was told that it will not receive.
//!
//! It is perfect: whatever the server sends is held against what may be sent. A client may keep a copy and go on from that.

use std::collections::VecDeque;

use encke_core::dialect::json::{Gap, Hello};

use crate::truth::Truth;

/// How many of the newest seqs a client remembers the content of.
const REMEMBERED: usize = 256;

/// What came under a seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Message { channel: u8, offset: u64 },
    Gap { channel: u8 },
}

/// Where a client is in a channel.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) epoch: String,
    /// The subscription began after this message,
    begun: u64,
    /// and after this seq: what came before is of an earlier one.
    begun_seq: u64,
    /// It has everything up to here, or was told that it is missing.
    pub(crate) up_to: u64,
}

/// A client's relation to a channel.
#[derive(Clone, Debug, Default)]
pub(crate) enum Following {
    /// It has not asked for it, or does not want it any more: what still comes is ignored.
    #[default]
    No,
    /// It has asked, and has no answer.
    Asked,
    /// It was following before its connection was lost with a question open: where it is cannot be told.
    Unknown,
    Yes(Place),
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) session: String,
    pub(crate) resume: String,
    /// The highest seq that it has had.
    pub(crate) highest: u64,
    pub(crate) channels: Vec<Following>,
    /// The channel of its last stream's URL, and the id of the last event.
    pub(crate) stream: Option<(u8, String)>,
    recent: VecDeque<(u64, Content)>,
    /// Something has happened after which gaps are allowed though the log still has what they stand for.
    pub(crate) gaps_allowed: bool,
    /// It has gone back to what it had before, and the server may not know: it has to say what it has.
    pub(crate) must_tell_seq: bool,
}

impl Page {
    pub(crate) fn new(hello: &Hello<'_>, channels: u8) -> Self {
        Self {
            session: hello.session.clone().into_owned(),
            resume: hello.resume.clone().into_owned(),
            highest: 0,
            channels: vec![Following::No; usize::from(channels)],
            stream: None,
            recent: VecDeque::new(),
            gaps_allowed: false,
            must_tell_seq: false,
        }
    }

    pub(crate) fn following(&mut self, channel: u8) -> &mut Following {
        &mut self.channels[usize::from(channel)]
    }

    /// A new session follows a channel from where the client was in it. `log` is the epoch and the last message of its log.
    pub(crate) fn begun_at(&mut self, channel: u8, position: &str, log: Option<(&str, u64)>) {
        let begun_seq = self.highest;
        *self.following(channel) = match (position.split_once(':'), log) {
            (None, _) => Following::No,
            (Some((epoch, offset)), Some((current, last))) if epoch == current => match offset.parse() {
                Ok(begun) if begun <= last => {
                    Following::Yes(Place { epoch: epoch.to_owned(), begun, begun_seq, up_to: begun })
                }
                _ => Following::Unknown,
            },
            // It is told a gap of unknown length first.
            (Some(_), _) => Following::Unknown,
        };
    }

    /// The answer to a subscribe. `since` is the message after which it asked to begin, with its epoch.
    pub(crate) fn subscribed(
        &mut self,
        channel: u8,
        epoch: &str,
        offset: u64,
        since: Option<&(String, u64)>,
        recovered: Option<bool>,
    ) {
        let begun_seq = self.highest;
        let following = self.following(channel);
        if !matches!(following, Following::Asked) {
            return;
        }
        let begun = match since.filter(|_| recovered.is_some()) {
            None => offset,
            Some((asked, since)) if asked == epoch && *since <= offset => *since,
            // It is told a gap of unknown length first.
            Some(_) => {
                *following = Following::Unknown;
                return;
            }
        };
        *following = Following::Yes(Place { epoch: epoch.to_owned(), begun, begun_seq, up_to: begun });
    }

    /// A message has come. Returns what is wrong with it, if anything.
    pub(crate) fn message(
        &mut self,
        seq: u64,
        channel: u8,
        offset: u64,
        number: u64,
        truth: &Truth,
    ) -> Result<(), String> {
        let fresh = self.remember(seq, Content::Message { channel, offset })?;
        let Following::Yes(place) = self.following(channel) else { return Ok(()) };
        let known = truth.channel(channel);
        if known.epoch == place.epoch {
            if offset > known.last {
                return Err(format!("message {offset} of channel {channel} was not published"));
            }
            if let Some(expected) = known.message(offset)
                && expected != number
            {
                return Err(format!("message {offset} of channel {channel} is {number}, not {expected}"));
            }
        }
        if !fresh {
            if seq > place.begun_seq && offset > place.up_to {
                return Err(format!("seq {seq} was had, but not message {offset} of {place:?}"));
            }
            return Ok(());
        }
        // Of an earlier subscription to the same channel something may come still.
        if offset <= place.begun {
            return Ok(());
        }
        if offset <= place.up_to {
            return Err(format!("message {offset} came twice, at seq {seq}: {place:?}"));
        }
        if offset != place.up_to + 1 {
            return Err(format!("message {offset} came at {place:?}: some are missing, and it was not told"));
        }
        place.up_to = offset;
        Ok(())
    }

    /// A gap has come. `first` is the oldest message in the channel's log now, if the log is that of this life.
    pub(crate) fn gap(&mut self, gap: &Gap<'_>, channel: u8, first: Option<u64>) -> Result<(), String> {
        let fresh = self.remember(gap.seq, Content::Gap { channel })?;
        let gaps_allowed = self.gaps_allowed;
        let Following::Yes(place) = self.following(channel) else { return Ok(()) };
        // It is of an earlier subscription, whose log may be gone.
        if gap.seq <= place.begun_seq {
            return Ok(());
        }
        if gap.epoch != place.epoch {
            return Err(format!("a gap of epoch {} at {place:?}", gap.epoch));
        }
        match gap.from.zip(gap.to) {
            None if gaps_allowed => {}
            None => return Err(format!("a gap of unknown length that nothing explains at {place:?}")),
            Some((from, to)) => {
                if from > to || fresh && from > place.up_to + 1 {
                    return Err(format!("the gap {from}..={to} does not cover what is missing at {place:?}"));
                }
                let explained = gaps_allowed || to <= place.begun || first.is_none_or(|first| to < first);
                if fresh && !explained {
                    return Err(format!("the gap {from}..={to} at {place:?}: the log has it from {first:?}"));
                }
                place.up_to = place.up_to.max(to);
            }
        }
        Ok(())
    }

    /// Whether a seq is a new one. One that came before must have had the same content.
    fn remember(&mut self, seq: u64, content: Content) -> Result<bool, String> {
        if seq > self.highest {
            self.highest = seq;
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back((seq, content));
            return Ok(true);
        }
        let found = self.recent.binary_search_by_key(&seq, |(seq, _)| *seq);
        match (found.map(|at| self.recent[at].1), content) {
            // A gap may stand for what can no longer be sent again.
            (Ok(before), Content::Message { .. }) if before != content => {
                Err(format!("seq {seq} was {before:?}, now {content:?}"))
            }
            _ => Ok(false),
        }
    }

    /// The connection is lost: questions that are open stay open.
    pub(crate) fn disconnected(&mut self) {
        for following in &mut self.channels {
            if matches!(following, Following::Asked) {
                *following = Following::Unknown;
            }
        }
    }
}
