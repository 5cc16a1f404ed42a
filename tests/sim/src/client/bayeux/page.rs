//! All that a client of Bayeux knows of its session. Messages come without numbers: what is missing is seen by what was published.

use std::collections::{BTreeSet, VecDeque};

use crate::client::answer;
use crate::truth::{LOGS, MOST_CHANNELS, Truth, channel_of, follows};
use crate::wire::Shared;

use super::heard::{Gap, Heard};

/// One answer may have been under way already, another may be without gaps since its ring was full.
const LOSSY_FOR: u8 = 2;

const MOST_GIVEN_UP: usize = 16;

/// Where a client is in a log: the server does not tell where a subscription begins, but it must be between these two.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) epoch: String,
    /// The last message when the client asked,
    low: u64,
    /// and the last when the server answered.
    high: u64,
    /// The last message that has come.
    up_to: u64,
    /// The last that had come with the last answer, or before it.
    answered: u64,
}

/// A client's relation to a channel or a pattern.
#[derive(Clone, Debug, Default)]
pub(crate) enum Following {
    #[default]
    No,
    /// It has asked, when this was the log's epoch and last message.
    Asked(String, u64),
    /// A request to follow or no longer to follow it is under way, or was lost.
    Unknown,
    Yes(Place),
}

/// A message of which its client had no word when a later one came.
#[derive(Clone, Debug)]
struct Untold {
    number: u64,
    log: u8,
    epoch: String,
    /// When that was noticed.
    what: String,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) session: String,
    pub(crate) token: String,
    /// It acknowledges what it gets.
    pub(crate) acknowledges: bool,
    /// The last acknowledgement that it was told.
    pub(crate) ack: u64,
    /// The pause that it was told last, in milliseconds.
    pub(crate) interval: u64,
    pub(crate) logs: Vec<Following>,
    /// Logs that it has ever asked for, as bits.
    ever: u16,
    /// Those of which it was told a gap of unknown length.
    anew: u16,
    /// Messages that it has had.
    had: BTreeSet<u64>,
    /// And those that it was told that it will not get.
    known: BTreeSet<u64>,
    /// Messages that were missing when others came on a WebSocket, which the next answer is to tell.
    untold: Vec<Untold>,
    /// A WebSocket was lost since the last answer that came.
    has_lost_socket: bool,
    /// The connect that was lost with it may have been told what it was not.
    has_lost_connect: bool,
    /// Connections on which an answer may have been lost since the last that came.
    lost: Vec<Shared>,
    /// The last connections that it has given up: each may have been told what it was not.
    given_up: VecDeque<Shared>,
    /// Messages were lost, and gaps may tell so, until so many answers have come without any.
    lossy_for: u8,
    /// It was told of a gap that stands for messages which nobody has seen.
    is_blind: bool,
    /// It has gone back to what it had before, which the server may have forgotten.
    pub(crate) has_gone_back: bool,
}

impl Page {
    pub(crate) fn new(token: &str, acknowledges: bool) -> Self {
        let session = token.split('.').next().unwrap_or_default().to_owned();
        Self {
            session,
            token: token.to_owned(),
            acknowledges,
            ack: 0,
            interval: 0,
            logs: vec![Following::No; usize::from(LOGS)],
            ever: 0,
            anew: 0,
            had: BTreeSet::new(),
            known: BTreeSet::new(),
            untold: Vec::new(),
            has_lost_socket: false,
            has_lost_connect: false,
            lost: Vec::new(),
            given_up: VecDeque::new(),
            lossy_for: 0,
            is_blind: false,
            has_gone_back: false,
        }
    }

    pub(crate) fn following(&mut self, log: u8) -> &mut Following {
        &mut self.logs[usize::from(log)]
    }

    pub(crate) fn ask_for(&mut self, log: u8, epoch: String, last: u64) {
        self.ever |= 1 << log;
        *self.following(log) = Following::Asked(epoch, last);
    }

    /// A subscribe was answered when the log was like this.
    pub(crate) fn subscribed(&mut self, log: u8, epoch: &str, last: u64) {
        let following = self.following(log);
        let Following::Asked(asked, low) = following else { return };
        let low = if asked == epoch { *low } else { 0 };
        *following =
            Following::Yes(Place { epoch: epoch.to_owned(), low, high: last, up_to: low, answered: low });
    }

    /// An unsubscribe was answered. It may be the second of two, and the channel asked for anew after the answer to the first.
    pub(crate) fn unsubscribed(&mut self, log: u8) {
        let following = self.following(log);
        let is_asked_anew = matches!(following, Following::Asked(..) | Following::Yes(_));
        *following = if is_asked_anew { Following::Unknown } else { Following::No };
    }

    /// A connection is lost whose answer has not come.
    pub(crate) fn lose(&mut self, wire: Shared) {
        self.give_up(wire.clone());
        self.lost.push(wire);
    }

    fn give_up(&mut self, wire: Shared) {
        if self.given_up.len() == MOST_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(wire);
    }

    /// A WebSocket is lost, given here if there was a connect on it. What has come on it since the last answer may be told as missing.
    pub(crate) fn lose_socket(&mut self, socket: Option<Shared>) {
        self.has_lost_socket = true;
        if let Some(wire) = socket {
            self.has_lost_connect = true;
            // The connect may reach the server after a later one, and be answered when that was told to pause.
            wire.lock().remember_written();
            self.give_up(wire);
        }
    }

    /// An administrator drops the connection of a session. The server does not wait for the end of an answer that is under way, which
    /// may arrive all the same.
    pub(crate) fn disconnected(&mut self, session: &str) {
        if self.session == session {
            self.lossy_for = LOSSY_FOR;
        }
    }

    /// An answer has come, but too late for the server, which waits no longer and takes it for lost.
    pub(crate) fn came_too_late(&mut self) {
        self.lossy_for = LOSSY_FOR;
    }

    /// An answer may have been lost since the last that came.
    pub(crate) fn may_have_lost(&self) -> bool {
        !self.lost.is_empty() || self.has_lost_socket
    }

    /// The pause after this answer, in milliseconds, if it says so. Otherwise it is as before.
    pub(crate) fn pause(&mut self, interval: Option<u64>) -> u64 {
        if let Some(interval) = interval {
            (self.interval, self.has_lost_connect) = (interval, false);
        }
        self.interval
    }

    /// The end of the pause was in an answer that was lost, as far as anyone can tell: no later one says it again.
    pub(crate) fn excuse_pause(&mut self) {
        self.has_lost_connect = true;
    }

    /// An answer that it did not read has told it to go on without a pause.
    pub(crate) fn has_missed_the_end_of_a_pause(&self) -> bool {
        let end = b"\"interval\":0";
        let says_so = |wire: &Shared| wire.lock().written().windows(end.len()).any(|it| it == end);
        self.has_lost_connect || self.given_up.iter().any(says_so)
    }

    /// The next answer has come. Without acknowledgements, what the server's kernel had taken of an answer before is nobody's loss
    /// to tell of: the server cannot know.
    pub(crate) fn look_at_lost(&mut self, truth: &Truth) {
        let lost = std::mem::take(&mut self.lost);
        if std::mem::take(&mut self.has_lost_socket) || !lost.is_empty() {
            self.lossy_for = LOSSY_FOR;
        }
        if self.acknowledges {
            return;
        }
        for wire in lost {
            let wire = wire.lock();
            let Ok(Some(answer)) = answer::read(wire.written()) else { continue };
            let Ok(Heard { events, reply, .. }) = Heard::read(answer.body) else { continue };
            self.known.extend(events.iter().map(|(_, number)| *number));
            for gap in reply.gaps() {
                self.know(&gap, truth);
                self.begin_anew(&gap);
            }
        }
    }

    /// What is in a gap is known to be missing.
    fn know(&mut self, gap: &Gap, truth: &Truth) {
        let Some(log) = channel_of(&gap.channel) else { return };
        if let Some(range) = gap.range {
            // Other logs may have them still, also when the life of this one is over.
            let (numbers, unseen) = truth.channel(log).numbers(&gap.epoch, range);
            self.known.extend(numbers);
            // Which messages these are in other logs cannot be told.
            self.is_blind |= unseen;
        } else {
            self.anew |= 1 << log;
        }
    }

    /// After a gap of unknown length it goes on, from where is not told.
    fn begin_anew(&mut self, gap: &Gap) {
        let Some(log) = channel_of(&gap.channel).filter(|_| gap.range.is_none()) else { return };
        let following = self.following(log);
        if let Following::Yes(_) = following {
            *following = Following::Unknown;
        }
    }

    /// All gaps of an answer, which come before its messages. `first` tells the oldest message that a log still has.
    pub(crate) fn gaps(
        &mut self,
        gaps: &[Gap],
        truth: &Truth,
        first: impl Fn(u8, &str) -> Option<u64>,
    ) -> Result<(), String> {
        for gap in gaps {
            let log = channel_of(&gap.channel).ok_or_else(|| format!("a gap of {}", gap.channel))?;
            if self.ever & 1 << log == 0 {
                return Err(format!("{gap:?} of what it has never followed"));
            }
            self.know(gap, truth);
            if self.has_gone_back || self.lossy_for > 0 && !self.acknowledges {
                // Nothing has to explain it, but what it tells is so.
                self.begin_anew(gap);
                continue;
            }
            let Following::Yes(place) = &self.logs[usize::from(log)] else { continue };
            // Perhaps between its question and the answer, of which it knows the end alone.
            let has_moved_since =
                truth.channel(log).goes_on && gap.range.is_none() && place.answered <= place.high;
            if has_moved_since || truth.channel(log).may_go_on(&place.epoch, &gap.epoch) {
                // Another life of the log has gone on, and lacks what it had: from where is not told.
                *self.following(log) = Following::Unknown;
                continue;
            }
            let Some((from, to)) = gap.range else {
                return Err(format!("{gap:?} of unknown length that nothing explains at {place:?}"));
            };
            let is_explained = place.epoch != gap.epoch
                || to <= place.high
                || first(log, &gap.epoch).is_none_or(|first| to < first);
            if from > to || !is_explained {
                return Err(format!("{gap:?} at {place:?}, and the log has it"));
            }
        }
        if gaps.is_empty() {
            self.lossy_for = self.lossy_for.saturating_sub(1);
        }
        Ok(())
    }

    /// An answer has come: what was missing when messages came has been told by now.
    pub(crate) fn check_told(&mut self, truth: &Truth) -> Result<(), String> {
        for following in &mut self.logs {
            if let Following::Yes(place) = following {
                place.answered = place.up_to;
            }
        }
        if self.lossy_for > 0 {
            return Ok(());
        }
        let untold = std::mem::take(&mut self.untold);
        let is_lenient = self.has_gone_back || self.is_blind;
        let is_missing = |it: &Untold| {
            // What a gap says of a life that is over, or of what is remembered no more, cannot be looked at.
            let log = truth.channel(it.log);
            let is_remembered = log.epoch == it.epoch && log.offset_of(it.number).is_some();
            is_remembered && !self.known.contains(&it.number) && !self.had.contains(&it.number)
        };
        match untold.into_iter().find(is_missing).filter(|_| !is_lenient) {
            Some(it) => Err(format!("{}: {} is missing, and an answer does not tell", it.what, it.number)),
            None => Ok(()),
        }
    }

    /// A message has come, on its own or, after the gaps, with an answer.
    pub(crate) fn message(
        &mut self,
        channel: &str,
        number: u64,
        truth: &Truth,
        is_alone: bool,
    ) -> Result<(), String> {
        let channel = channel_of(channel).filter(|channel| *channel < MOST_CHANNELS);
        let channel = channel.ok_or_else(|| "a message of no channel".to_owned())?;
        if !self.had.insert(number) && !self.may_come_again(channel, number, truth, is_alone) {
            return Err(format!("message {number} of channel {channel} came twice"));
        }
        let logs = (0..LOGS).filter(|log| follows(*log, channel));
        if logs.clone().all(|log| self.ever & 1 << log == 0) {
            return Err(format!("message {number} of channel {channel}, which it has never followed"));
        }
        for log in logs {
            let life = truth.channel(log);
            let Some(offset) = life.offset_of(number) else { continue };
            let known = &self.known;
            let (had, is_lenient) = (&self.had, self.has_gone_back || self.is_blind);
            let Following::Yes(place) = &mut self.logs[usize::from(log)] else { continue };
            // Of an earlier subscription, or of another one.
            if life.epoch != place.epoch || offset <= place.low {
                continue;
            }
            // What this log has lost, another may have still.
            let is_to_be_told = is_alone && self.untold.iter().any(|it| it.log == log);
            let was_told_missing = known.contains(&number) || is_to_be_told;
            if offset <= place.up_to && offset > place.high && !was_told_missing && !self.is_blind {
                return Err(format!("message {number}, {offset} of log {log}, came late: {place:?}"));
            }
            let is_known = |offset| {
                life.message(offset).is_none_or(|number| known.contains(&number) || had.contains(&number))
            };
            let begun = place.up_to.max(place.high) + 1;
            if let Some(missing) = (begun..offset).find(|offset| !is_known(*offset)).filter(|_| !is_lenient) {
                let what = format!("message {number}, {offset} of log {log}, came at {place:?}");
                if !is_alone {
                    return Err(format!("{what}: some are missing, and it was not told"));
                }
                let epoch = place.epoch.clone();
                self.untold.extend(life.message(missing).map(|number| Untold { number, log, epoch, what }));
            }
            place.up_to = place.up_to.max(offset);
        }
        Ok(())
    }

    /// Another life of a log may begin anew, after a gap of unknown length, with messages that it has of the life before.
    fn may_come_again(&self, channel: u8, number: u64, truth: &Truth, is_alone: bool) -> bool {
        // A message that comes on its own comes before the gap.
        let may_be_anew = is_alone || self.anew & 1 << channel != 0;
        let life = truth.channel(channel);
        may_be_anew && life.goes_on && life.is_in_several_lives(number)
    }

    /// Whether it has been told of all that it has not.
    fn is_certain(&self) -> bool {
        !self.has_gone_back
            && !self.is_blind
            && (self.acknowledges || !self.may_have_lost() && self.lossy_for == 0)
    }

    /// What it should have of a log, and has not.
    pub(crate) fn is_missing(&self, log: u8, epoch: &str, last: u64, truth: &Truth) -> Option<String> {
        let life = truth.channel(log);
        match &self.logs[usize::from(log)] {
            Following::No => Some("it does not follow that any more".to_owned()),
            Following::Yes(place) if life.may_go_on(&place.epoch, epoch) => None,
            Following::Yes(place) if place.epoch != epoch => Some(format!("{place:?} in {epoch}")),
            Following::Yes(place) if self.is_certain() => {
                let is_unknown = |offset: &u64| {
                    life.message(*offset)
                        .is_some_and(|number| !self.known.contains(&number) && !self.had.contains(&number))
                };
                let missing = (place.up_to.max(place.high) + 1..=last).find(is_unknown)?;
                Some(format!("{missing} is missing at {place:?}"))
            }
            _ => None,
        }
    }
}
