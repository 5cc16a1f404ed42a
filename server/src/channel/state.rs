use std::sync::{Arc, Weak};
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::encodings::PatternEncodings;
use encke_core::message::{JsonString, Kind};
use encke_core::session::outbox::{Bounds, Place, Slot};
use parking_lot::{Mutex, MutexGuard};

use super::budget::{Account, AgeKey};
use super::life::Life;
use super::log::{Log, LogSize};
use super::message::LogMessage;
use super::name::ChannelName;
use super::occupancy::Occupancy;
use super::subscribers::{Subscriber, SubscriberKey, Subscribers};
use super::sweep::Sweep;
use crate::timeouts::{Owners, TimerCell};
use crate::trace::Traced;

/// One channel. Owned by the table of channels, and by its subscribers.
#[derive(Debug)]
pub(crate) struct Channel<S> {
    name: ChannelName,
    /// This life of the log: offsets of different epochs do not compare.
    epoch: Arc<str>,
    /// See [`Life::past`].
    past: Box<[(Box<str>, u64)]>,
    /// An engine elsewhere has its log.
    is_fed: bool,
    /// Of a pattern.
    pattern: Option<PatternEncodings>,
    /// Told apart from all others that were here since the start.
    number: u64,
    /// Of who made it.
    account: Arc<Account<S>>,
    /// Where it is counted who follows, if anyone wants to know.
    occupancy: Option<Arc<Occupancy>>,
    /// The age of the log's oldest message. Its deadline is requested under the lock.
    pub(super) timer: Arc<TimerCell>,
    pub(super) state: Mutex<State<S>>,
}

/// What the lock guards.
#[derive(Debug)]
pub(super) struct State<S> {
    pub(super) log: Log,
    pub(super) subscribers: Subscribers<S>,
    pub(super) sweep: Sweep,
    /// The messages whose way to their readers is followed.
    pub(super) traced: Traced,
    /// Its key in the order of ages.
    pub(super) age_key: Option<AgeKey>,
    /// Its number among those that nobody follows.
    pub(super) idle: Option<u64>,
    /// Its newest message when the last that followed it left.
    pub(super) left_at: u64,
    /// How many [holds](super::hold::Hold) there are.
    holds: usize,
    /// See [`Life::is_filling`].
    pub(super) is_filling: bool,
    /// It is unused and leaving the table. Whatever has found it there must look again.
    pub(super) retired: bool,
}

impl<S> Default for State<S> {
    fn default() -> Self {
        Self {
            log: Log::default(),
            subscribers: Subscribers::default(),
            sweep: Sweep::default(),
            traced: Traced::default(),
            age_key: None,
            idle: None,
            left_at: 0,
            holds: 0,
            is_filling: false,
            retired: false,
        }
    }
}

impl<S: Subscriber> State<S> {
    /// Nothing follows or holds the channel.
    pub(super) fn is_idle(&self) -> bool {
        !self.retired && self.holds == 0 && self.subscribers.len() == 0
    }

    /// There is one hold, and no subscriber.
    pub(super) fn is_only_held(&self) -> bool {
        self.holds == 1 && self.subscribers.len() == 0
    }

    /// Nothing has followed the pattern for so long that its log has lost what came next: it would go on for nobody.
    pub(super) fn has_been_left(&self) -> bool {
        self.idle.is_some() && self.log.bounds().first > self.left_at + 1
    }

    /// And its log is empty, and it has not been retired for that already.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && self.log.len() == 0
    }
}

/// It was just leaving the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired;

/// What can be seen of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelView {
    pub(crate) name: ChannelName,
    pub(crate) epoch: String,
    pub(crate) bounds: Bounds,
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) subscribers: usize,
}

/// The size of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) before: LogSize,
    pub(super) after: LogSize,
}

/// A message that was published some time ago.
#[derive(Debug)]
pub(crate) struct HistoryMessage {
    pub(crate) offset: u64,
    pub(crate) age: Duration,
    /// Where it was published, in the history of a pattern.
    pub(crate) channel: Option<ChannelName>,
    /// Whose client has published it.
    pub(crate) user: Option<String>,
    /// What the data tells.
    pub(crate) kind: Kind,
    /// JSON.
    pub(crate) data: String,
}

/// Which messages of a log are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryPart {
    /// The oldest after this offset.
    After(u64),
    /// The newest of those between two offsets.
    Between { after: u64, before: u64 },
}

impl<S: Subscriber> Channel<S> {
    pub(super) fn new(
        owners: &Owners<Self>,
        name: ChannelName,
        account: Arc<Account<S>>,
        number: u64,
        Life { epoch, last, past, is_filling }: Life,
        occupancy: Option<Arc<Occupancy>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            pattern: name.is_pattern().then(|| PatternEncodings::new(name.as_str(), &epoch)),
            name,
            account,
            epoch,
            past,
            is_fed: is_filling,
            number,
            occupancy,
            timer: owners.new_timer(Weak::clone(this)),
            state: Mutex::new(State { log: Log::after(last), is_filling, ..State::default() }),
        })
    }

    pub(crate) fn name(&self) -> &ChannelName {
        &self.name
    }

    pub(crate) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Whether what comes after this message of this epoch, is in the log, or was.
    pub(crate) fn goes_on_after(&self, epoch: &str, offset: u64) -> bool {
        *self.epoch == *epoch || self.past.iter().any(|(past, cut)| **past == *epoch && offset <= *cut)
    }

    pub(super) fn shared_epoch(&self) -> Arc<str> {
        Arc::clone(&self.epoch)
    }

    /// What all messages by it say of it, if it is a pattern.
    pub(crate) fn pattern(&self) -> Option<&PatternEncodings> {
        self.pattern.as_ref()
    }

    /// Whether its log is elsewhere, and is only repeated here.
    pub(crate) fn is_fed(&self) -> bool {
        self.is_fed
    }

    pub(super) fn account(&self) -> &Arc<Account<S>> {
        &self.account
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The number of the newest message.
    pub(crate) fn last_offset(&self) -> u64 {
        self.state.lock().log.bounds().last
    }

    /// Reads at someone's cursor.
    pub(crate) fn read(&self) -> Reader<'_, S> {
        Reader(self.state.lock())
    }

    /// When its oldest message was published.
    #[cfg(feature = "simulation")]
    pub(crate) fn oldest_at(&self) -> Option<Timestamp> {
        self.state.lock().log.oldest_at()
    }

    /// What can be seen of it.
    pub(crate) fn view(&self) -> ChannelView {
        let state = self.state.lock();
        ChannelView {
            name: self.name.clone(),
            epoch: self.epoch.to_string(),
            bounds: state.log.bounds(),
            messages: state.log.len(),
            bytes: state.log.size().bytes,
            subscribers: state.subscribers.len(),
        }
    }

    /// Its subscribers from index `from` on, each with its index; and how many there are in all.
    pub(crate) fn subscribers(&self, home: &S::Home, from: usize, limit: usize) -> (Vec<(usize, S)>, usize) {
        let state = self.state.lock();
        (state.subscribers.page(home, from, limit), state.subscribers.len())
    }

    /// The messages of this part that are still there, at most `limit`, oldest first.
    pub(crate) fn history(
        &self,
        part: HistoryPart,
        limit: usize,
        now: Timestamp,
    ) -> (Bounds, Vec<HistoryMessage>) {
        let state = self.state.lock();
        let (from, end) = match part {
            HistoryPart::After(offset) => (offset.saturating_add(1), u64::MAX),
            HistoryPart::Between { after, before } => {
                let end = before.min(state.log.next_offset());
                (end.saturating_sub(limit as u64).max(after.saturating_add(1)), end)
            }
        };
        let messages = state.log.since(from).take_while(|(offset, ..)| *offset < end).take(limit);
        let messages = messages.map(|(offset, at, message)| HistoryMessage {
            offset,
            age: now.since(at),
            channel: self.pattern().and(message.origin()).map(|origin| origin.channel.clone()),
            user: message.encodings().stamp().user.map(JsonString::to_text),
            kind: message.encodings().stamp().kind,
            data: message.encodings().data().as_str().to_owned(),
        });
        (state.log.bounds(), messages.collect())
    }

    /// Harmless if it is no longer a subscriber.
    pub(crate) fn remove_subscriber(&self, key: SubscriberKey) {
        let mut state = self.state.lock();
        // Its place may be another's by now.
        if !state.subscribers.remove(key) {
            return;
        }
        if let Some(occupancy) = &self.occupancy {
            occupancy.left(&self.name);
        }
        let left = state.traced.left(key.index());
        drop(state);
        left.tell();
    }

    pub(super) fn add_hold(&self, then: impl FnOnce(&mut State<S>)) -> Result<(), Retired> {
        let mut state = self.state.lock();
        if state.retired {
            return Err(Retired);
        }
        state.holds += 1;
        then(&mut state);
        Ok(())
    }

    pub(super) fn remove_hold(&self) {
        self.state.lock().holds -= 1;
    }

    /// Adds a subscriber. The channel must be [held](super::hold::Hold).
    ///
    /// `join` decides by the log's bounds where the subscriber begins to read, and calls what it is given with the
    /// subscriber's slot for this channel. The lock is held meanwhile, so nothing is published in between.
    ///
    /// # Errors
    /// [`Retired`], when another has just taken its place, although it is held.
    pub(crate) fn join<R>(
        &self,
        subscriber: S,
        join: impl FnOnce(Bounds, &mut dyn FnMut(Slot) -> SubscriberKey) -> R,
    ) -> Result<R, Retired> {
        let mut state = self.state.lock();
        if state.retired {
            return Err(Retired);
        }
        let bounds = state.log.bounds();
        Ok(join(bounds, &mut |slot| {
            if let Some(occupancy) = &self.occupancy {
                occupancy.joined(&self.name);
            }
            state.subscribers.add(subscriber, slot)
        }))
    }

    /// Whether there is one hold, and no subscriber.
    pub(crate) fn is_only_held(&self) -> bool {
        self.state.lock().is_only_held()
    }
}

impl<S: Subscriber> Channel<S> {
    /// A subscriber of an earlier process goes on. It is told when there is more.
    pub(crate) fn rejoin(&self, subscriber: S, slot: Slot) -> Option<SubscriberKey> {
        let mut state = self.state.lock();
        if state.retired {
            return None;
        }
        let key = state.subscribers.add(subscriber, slot);
        state.subscribers.set_waiting(key);
        if let Some(occupancy) = &self.occupancy {
            occupancy.stayed(&self.name);
        }
        Some(key)
    }
}

/// A channel's log, locked for reading.
#[derive(Debug)]
pub(crate) struct Reader<'a, S>(MutexGuard<'a, State<S>>);

impl<S: Subscriber> Reader<'_, S> {
    /// While it is [filling](Self::is_filling) there is nothing new.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.0.is_filling { Bounds { first: 1, last: 0 } } else { self.0.log.bounds() }
    }

    /// Whether what it has is still to come: not even what was sent is there to be sent again.
    pub(crate) fn is_filling(&self) -> bool {
        self.0.is_filling
    }

    /// The messages from the number `offset` on.
    pub(crate) fn since(&self, offset: u64) -> impl Iterator<Item = &LogMessage> {
        self.0.log.since(offset).map(|(_, _, message)| message)
    }

    /// Where the message with this number is.
    pub(crate) fn places(&self, offset: u64) -> &[Place] {
        self.since(offset).next().map_or(&[], LogMessage::places)
    }

    /// Those of the messages that are traced.
    #[cfg(feature = "otlp")]
    pub(crate) fn traced(&self) -> &Traced {
        &self.0.traced
    }

    /// This subscriber has read all there is, and wants to be told when there is more.
    pub(crate) fn wait(&mut self, subscriber: SubscriberKey) {
        self.0.subscribers.set_waiting(subscriber);
    }
}
