//! All that a client knows of its session: what it has received, and what it was told that it will not receive.
//!
//! It is perfect: whatever the server sends is held against what may be sent. A client may keep a copy and go on from that.

mod subscribed;

use std::collections::{BTreeSet, VecDeque};

use encke_core::dialect::json::{Gap, Hello};

use super::early::{Early, EarlyMessage};
use crate::truth::{LOGS, Truth};
pub(super) use subscribed::Subscribed;

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
    pub(super) begun: u64,
    /// and after this seq: what came before is of an earlier one.
    begun_seq: u64,
    /// What comes up to here it asked for, though another subscription may have had it.
    pub(super) asked_up_to: u64,
    /// It was asked for beside the connection: messages of an earlier subscription, from another life of the log, may come still.
    asked_beside: bool,
    /// Nobody has told the epoch: it is one that has what came so far.
    is_epoch_seen: bool,
    /// It has everything up to here, or was told that it is missing. What is next may have come by another subscription.
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
    /// Where it begins is seen from what comes first: a poll has opened a session that follows it, or it goes on in another life, whose
    /// epoch was told.
    FromHere(Option<String>),
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
    /// The numbers of all messages that it has had, or was told that it will not get.
    known: BTreeSet<u64>,
    /// Of those that it has had.
    had: BTreeSet<u64>,
    /// What came by a poll of channels that it has asked for beside that, and has no answer.
    early: Vec<(u8, Early)>,
    /// The channels that it has ever followed, as bits.
    followed: u16,
    /// Something has happened after which gaps are allowed though the log still has what they stand for.
    pub(crate) gaps_allowed: bool,
    /// It has gone back to what it had before, and has acknowledged more than that.
    pub(crate) has_gone_back: bool,
    /// It has gone back to what it had before, and the server may not know: it has to say what it has.
    pub(crate) must_tell_seq: bool,
}

impl Page {
    pub(crate) fn new(hello: &Hello<'_>) -> Self {
        Self {
            session: hello.session.clone().into_owned(),
            resume: hello.resume.clone().into_owned(),
            highest: 0,
            channels: vec![Following::No; usize::from(LOGS)],
            stream: None,
            recent: VecDeque::new(),
            known: BTreeSet::new(),
            had: BTreeSet::new(),
            early: Vec::new(),
            followed: 0,
            gaps_allowed: false,
            has_gone_back: false,
            must_tell_seq: false,
        }
    }

    pub(crate) fn following(&mut self, channel: u8) -> &mut Following {
        &mut self.channels[usize::from(channel)]
    }

    /// It asks for a channel.
    pub(crate) fn ask_for(&mut self, channel: u8) {
        self.followed |= 1 << channel;
        self.early.retain(|(of, _)| *of != channel);
        *self.following(channel) = Following::Asked;
    }

    /// A session that a poll has opened follows a channel: from where is not told.
    pub(crate) fn begun_here(&mut self, channel: u8) {
        self.followed |= 1 << channel;
        *self.following(channel) = Following::FromHere(None);
    }

    pub(crate) fn has_followed(&self, channel: u8) -> bool {
        self.followed & 1 << channel != 0
    }

    /// A new session follows a channel from where the client was in it. `log` is the epoch and the last message of its log.
    pub(crate) fn begun_at(&mut self, channel: u8, position: &str, log: Option<(&str, u64)>) {
        let begun_seq = self.highest;
        self.followed |= 1 << channel;
        *self.following(channel) = match (position.split_once(':'), log) {
            (None, _) => Following::No,
            (Some((epoch, offset)), Some((current, last))) if epoch == current => match offset.parse() {
                Ok(begun) if begun <= last => Following::Yes(Place {
                    epoch: epoch.to_owned(),
                    begun,
                    begun_seq,
                    asked_up_to: last,
                    asked_beside: false,
                    is_epoch_seen: false,
                    up_to: begun,
                }),
                _ => Following::Unknown,
            },
            // It is told a gap of unknown length first.
            (Some(_), _) => Following::Unknown,
        };
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
        self.known.insert(number);
        let is_new = self.had.insert(number);
        let (gaps_allowed, has_gone_back) = (self.gaps_allowed, self.has_gone_back);
        if fresh && matches!(self.following(channel), Following::Asked) {
            let is_known = knows(&self.known, truth, channel);
            let known_from =
                (1..offset).rev().find(|offset| !is_known(*offset)).map_or(1, |missing| missing + 1);
            self.early.push((channel, Early::Message(EarlyMessage { offset, number, known_from, is_new })));
        }
        if fresh && let following @ Following::FromHere(_) = self.following(channel) {
            let Following::FromHere(told) = std::mem::take(following) else { unreachable!("it is") };
            // An answer may be read when the channel has another life already.
            let (is_epoch_seen, begun) = (told.is_none(), offset - 1);
            let epoch = told.unwrap_or_else(|| truth.channel(channel).epoch_of(offset, number).to_owned());
            *following = Following::Yes(Place {
                epoch,
                begun,
                begun_seq: seq - 1,
                asked_up_to: begun,
                asked_beside: false,
                is_epoch_seen,
                up_to: begun,
            });
        }
        let is_known = knows(&self.known, truth, channel);
        let Following::Yes(place) = &mut self.channels[usize::from(channel)] else { return Ok(()) };
        let known = truth.channel(channel);
        // What is sent again is of the life that it was sent in first.
        let is_of_former_one = place.asked_beside && known.is_of_earlier_life(&place.epoch, offset, number)
            || seq <= place.begun_seq && known.is_of_another_life(&place.epoch, offset, number);
        if is_of_former_one {
            return Ok(());
        }
        // What both have, it may have been sent in either.
        let is_of_former = known.former_message(&place.epoch, offset) == Some(number);
        let is_of_present = known.message(offset) == Some(number);
        if fresh && known.may_go_on(&place.epoch, &known.epoch) && is_of_present && !is_of_former {
            // Another life of the log has gone on, with all that it has.
            if !known.goes_on_from(&place.epoch, place.up_to) {
                if !has_gone_back {
                    return Err(format!(
                        "message {offset} of channel {channel} came at {place:?}, which was lost"
                    ));
                }
                // What told of that it has acknowledged. That it does not come again is told later, when the ring is sent.
                (place.begun, place.begun_seq) = (offset - 1, seq - 1);
                (place.asked_up_to, place.up_to) = (offset - 1, offset - 1);
            }
            place.epoch.clone_from(&known.epoch);
            place.is_epoch_seen = true;
        }
        if fresh && place.is_epoch_seen && known.message_of(&place.epoch, offset) != Some(number) {
            // All that came so far is in another life as well, and the session has not left that.
            let epoch = known.epoch_of(offset, number);
            let numbers =
                known.message_of(&place.epoch, place.up_to).zip(known.message_of(epoch, place.up_to));
            if numbers.is_none_or(|(one, other)| one == other) {
                place.epoch = epoch.to_owned();
            }
        }
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
        // After a gap of unknown length, what an earlier life had as well may come once more.
        let came_before = || known.goes_on && known.is_of_earlier_life(&place.epoch, offset, number);
        if !is_new && offset > place.asked_up_to && !gaps_allowed && !came_before() {
            return Err(format!("message {offset} of {place:?} came by another subscription before"));
        }
        if !(place.up_to + 1..offset).all(is_known) && !gaps_allowed {
            return Err(format!("message {offset} came at {place:?}: some are missing, and it was not told"));
        }
        place.up_to = offset;
        Ok(())
    }

    /// A gap has come. `first` is the oldest message in the channel's log now, if the log is that of this life.
    pub(crate) fn gap(
        &mut self,
        gap: &Gap<'_>,
        channel: u8,
        first: Option<u64>,
        truth: &Truth,
    ) -> Result<(), String> {
        let fresh = self.remember(gap.seq, Content::Gap { channel })?;
        if fresh && matches!(self.following(channel), Following::Asked) {
            self.early.push((channel, Early::Gap));
        }
        if fresh && let following @ Following::FromHere(_) = self.following(channel) {
            *following = Following::Unknown;
        }
        let gaps_allowed = self.gaps_allowed;
        let log = truth.channel(channel);
        if let Some(range) = gap.from.zip(gap.to) {
            // What another subscription shares with this one is told as well, also when the life of this log is over.
            let (numbers, unseen) = log.numbers(&gap.epoch, range);
            self.known.extend(numbers);
            // Which messages these are in other logs cannot be told.
            self.gaps_allowed |= unseen;
        }
        let Following::Yes(place) = &mut self.channels[usize::from(channel)] else { return Ok(()) };
        // It is of an earlier subscription, whose log may be gone.
        if gap.seq <= place.begun_seq {
            return Ok(());
        }
        if place.asked_beside && log.was_before(&gap.epoch, &place.epoch) {
            return Ok(());
        }
        let was_in_another = gap.from.is_none()
            && place.is_epoch_seen
            && gap.epoch == place.epoch
            && log.is_in_another_life(&place.epoch, place.up_to);
        if was_in_another || log.may_go_on(&place.epoch, &gap.epoch) {
            // Another life of the log has gone on, and lacks what it had.
            self.channels[usize::from(channel)] = Following::FromHere(Some(gap.epoch.clone().into_owned()));
            return Ok(());
        }
        if gap.epoch != place.epoch {
            return Err(format!("a gap of epoch {} at {place:?}", gap.epoch));
        }
        match gap.from.zip(gap.to) {
            // An earlier subscription's may have been under way when this one was asked for beside it.
            None if gaps_allowed || place.asked_beside => {}
            None => return Err(format!("a gap of unknown length that nothing explains at {place:?}")),
            Some((from, to)) => {
                let is_covered =
                    (place.up_to + 1..from).all(knows(&self.known, truth, channel)) || gaps_allowed;
                if from > to || fresh && !is_covered {
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

    /// Whether it has everything of a log up to here.
    pub(crate) fn has_up_to(&self, channel: u8, place: &Place, up_to: u64, truth: &Truth) -> bool {
        let mut rest = place.up_to + 1..=up_to;
        place.up_to <= up_to && (self.gaps_allowed || rest.all(knows(&self.known, truth, channel)))
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
        self.early.clear();
        for following in &mut self.channels {
            if matches!(following, Following::Asked) {
                *following = Following::Unknown;
            }
        }
    }
}

/// Whether a message of a log is known. What was published too long ago to be remembered is taken for known.
fn knows<'a>(known: &'a BTreeSet<u64>, truth: &'a Truth, channel: u8) -> impl Fn(u64) -> bool + 'a {
    move |offset| truth.channel(channel).message(offset).is_none_or(|number| known.contains(&number))
}
