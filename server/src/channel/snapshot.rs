//! Writing logs down, and going on with them in another process.
//!
//! Logs keep their numbers and epochs, so that cursors and places mean the same. A message that several logs share is written with
//! the first of them, and shared again by those that follow. Of a log that is elsewhere, only where it was is written, and only if a session
//! follows it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::dialect::PublishKey;
use encke_core::encodings::Encodings;
use encke_core::message::{CompactJson, Content, Kind, Message};
use encke_core::session::MOST_OFFSETS;
use encke_core::session::outbox::Place;

use super::budget::Account;
use super::channels::Channels;
use super::keys::{PublishId, Publisher};
use super::life::Life;
use super::log::{Log, LogSize};
use super::message::{LogMessage, Origin, SharedMessage};
use super::name::ChannelName;
use super::record::{KeyRecord, LogRecord, MessageRecord, SharedRecord};
use super::state::{Change, Channel};
use super::subscribers::Subscriber;
use crate::admission::Holder;
use crate::clock::nanos;

/// Logs looked up at a time.
const PAGE: usize = 1024;

/// Why a log cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log {0}")]
pub(crate) struct BadLog(&'static str);

/// What has been written so far.
#[derive(Debug, Default)]
pub(crate) struct LogsWritten {
    logs: HashSet<u64>,
    /// The first places of shared messages.
    shared: HashSet<(u64, u64)>,
}

/// What has been restored so far.
#[derive(Debug)]
pub(crate) struct RestoredLogs<S: Subscriber> {
    logs: HashMap<u64, (Arc<Channel<S>>, Option<u64>)>,
    shared: HashMap<(u64, u64), Arc<SharedMessage>>,
    /// Logs that nobody follows any more, in the place of those that are elsewhere.
    ended: HashMap<u64, Arc<Channel<S>>>,
}

impl<S: Subscriber> Default for RestoredLogs<S> {
    fn default() -> Self {
        Self { logs: HashMap::new(), shared: HashMap::new(), ended: HashMap::new() }
    }
}

impl<S: Subscriber> RestoredLogs<S> {
    /// The log of this number.
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<Channel<S>>> {
        self.logs.get(&number).map(|(channel, _)| channel)
    }
}

impl<S: Subscriber> Channels<S> {
    /// Numbers below this one may have been given to channels.
    pub(crate) fn numbers(&self) -> u64 {
        self.numbers_given()
    }

    /// Channels get numbers from this one on.
    ///
    /// # Errors
    /// [`BadLog`].
    pub(crate) fn restore_numbers(&self, numbers: u64) -> Result<(), BadLog> {
        if let Some(last) = numbers.checked_sub(1) {
            check(last < MOST_OFFSETS, "has no number")?;
            self.pass_number(last);
        }
        Ok(())
    }

    /// Writes all logs down, one after the other.
    pub(crate) fn snapshot<E>(
        &self,
        written: &mut LogsWritten,
        mut write: impl FnMut(&LogRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor: Option<ChannelName> = None;
        loop {
            let page = self.after(cursor.as_ref().map(ChannelName::as_str), PAGE);
            for channel in page.iter().filter(|channel| !channel.is_fed()) {
                if let Some(record) = self.snapshot_of(channel, written) {
                    write(&record)?;
                }
            }
            match page.last() {
                Some(last) => cursor = Some(last.name().clone()),
                None => return Ok(()),
            }
        }
    }

    /// Writes one log down, unless it has been.
    pub(crate) fn snapshot_of(&self, channel: &Channel<S>, written: &mut LogsWritten) -> Option<LogRecord> {
        if !written.logs.insert(channel.number()) {
            return None;
        }
        let now = self.timeouts.clock().now();
        let state = channel.state.lock();
        // One in whose place there is another has messages that are nowhere else.
        let elsewhere = channel.is_fed() && !state.retired;
        let kept = state.log.since(0).filter(|_| !elsewhere);
        let messages = kept.map(|(_, at, message)| {
            let age_ns = nanos(now.since(at));
            let shared = match message {
                LogMessage::Own(_) => None,
                LogMessage::Shared(shared) => {
                    let first = first_place(&shared.places);
                    if !written.shared.insert(first) {
                        return MessageRecord::earlier(age_ns, first);
                    }
                    Some(SharedRecord::of(shared))
                }
            };
            MessageRecord::of(age_ns, &message.encodings().content(), shared)
        });
        let keys = state.log.keys().map(|(id, at, offset)| KeyRecord {
            publisher: id.publisher.to_text(),
            key: id.key.to_string(),
            age_ns: nanos(now.since(at)),
            offset,
        });
        Some(LogRecord {
            keys: keys.collect(),
            messages: messages.collect(),
            number: channel.number(),
            name: channel.name().as_str().to_owned(),
            epoch: channel.epoch().to_owned(),
            maker: channel.account().maker().to_text(),
            last: state.log.bounds().last,
            retired: state.retired,
            left_at: state.idle.map(|_| state.left_at),
            elsewhere,
        })
    }

    /// Goes on with a log.
    ///
    /// # Errors
    /// [`BadLog`], and nothing changes.
    pub(crate) fn restore(&self, record: LogRecord, restored: &mut RestoredLogs<S>) -> Result<(), BadLog> {
        let name = ChannelName::of_log(&record.name).map_err(|_| BadLog("has no name"))?;
        let maker = Holder::of_text(&record.maker).ok_or(BadLog("is nobody's"))?;
        check(record.number < MOST_OFFSETS, "has no number")?;
        check(!restored.logs.contains_key(&record.number), "comes twice")?;
        check(
            record.last < MOST_OFFSETS && record.messages.len() as u64 <= record.last,
            "has too many messages",
        )?;
        let epoch: Arc<str> = record.epoch.into();
        check(!record.elsewhere || record.messages.is_empty(), "has messages, though they are elsewhere")?;
        let life = Life { is_filling: record.elsewhere, ..Life::of(Arc::clone(&epoch)) };
        let make = |account| self.make(name.clone(), account, record.number, life.clone());
        let now = self.timeouts.clock().now();
        let mut log = restore_log(&name, &epoch, now, (record.last, record.messages), restored)?;
        restore_keys(&mut log, now, record.keys)?;
        let channel = if record.retired {
            let channel = self.retired(make(Account::new(maker)));
            log.keep_to(self.log_limits(&channel));
            channel.state.lock().log = log;
            channel
        } else {
            let channel = self.put_back(&name, maker, make).ok_or(BadLog("has the name of another"))?;
            self.fill(&channel, log);
            channel
        };
        self.pass_number(record.number);
        restored.logs.insert(record.number, (channel, record.left_at));
        Ok(())
    }

    /// What one that has ended its subscription remembers of a log. Of one that is elsewhere that is nothing: nobody would tell it when that is
    /// there again.
    pub(crate) fn remembered(&self, number: u64, restored: &mut RestoredLogs<S>) -> Option<Arc<Channel<S>>> {
        let channel = restored.get(number)?;
        if !channel.is_fed() || channel.state.lock().retired {
            return Some(Arc::clone(channel));
        }
        if let Some(ended) = restored.ended.get(&number) {
            return Some(Arc::clone(ended));
        }
        let life = Life { last: channel.last_offset(), ..Life::of(channel.shared_epoch()) };
        let account = Account::new(channel.account().maker().clone());
        let (name, number_here) = (channel.name().clone(), self.next_number());
        let ended = self.retired(self.make(name, account, number_here, life));
        restored.ended.insert(number, Arc::clone(&ended));
        Some(ended)
    }

    /// One that is in no table.
    fn retired(&self, channel: Arc<Channel<S>>) -> Arc<Channel<S>> {
        channel.state.lock().retired = true;
        self.owners.remove(&channel.timer);
        channel
    }

    fn fill(&self, channel: &Arc<Channel<S>>, log: Log) {
        let action = {
            let mut state = channel.state.lock();
            state.log = log;
            self.budget
                .changed(channel.account(), Change { before: LogSize::default(), after: state.log.size() });
            channel.list(&mut state);
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
    }

    /// All is restored that may follow a log: those that nothing follows are known as such, and limits hold again. Returns those that are still
    /// there.
    pub(crate) fn settle(&self, restored: RestoredLogs<S>) -> Vec<Arc<Channel<S>>> {
        let RestoredLogs { logs, shared, ended: _ } = restored;
        // What nobody shares any more counts as free when it is dropped.
        drop(shared);
        let mut settled = Vec::with_capacity(logs.len());
        for (channel, left_at) in logs.into_values().filter(|(channel, _)| !channel.state.lock().retired) {
            self.trim_if(&channel, |_| true, |log| log.keep_to(self.log_limits(&channel)));
            let mut state = channel.state.lock();
            if let (Some(_), Some(left_at)) = (state.idle, left_at) {
                state.left_at = left_at.min(state.log.bounds().last);
            }
            if !state.retired {
                drop(state);
                settled.push(channel);
            }
        }
        self.keep_to_budget(self.timeouts.clock().now());
        settled
    }
}

fn check(is_right: bool, problem: &'static str) -> Result<(), BadLog> {
    if is_right { Ok(()) } else { Err(BadLog(problem)) }
}

fn first_place(places: &[Place]) -> (u64, u64) {
    places.first().map_or((0, 0), |place| (place.log, place.offset))
}

impl MessageRecord {
    fn of(age_ns: u64, content: &Content<'_>, shared: Option<SharedRecord>) -> Self {
        let user = content.user.as_deref().map(ToOwned::to_owned);
        Self {
            age_ns,
            data: Some(content.data.as_str().to_owned()),
            shared,
            earlier: None,
            user,
            at_ms: content.at_ms,
            has_left: match content.kind {
                Kind::Data => None,
                Kind::Joined => Some(false),
                Kind::Left => Some(true),
            },
        }
    }

    /// An earlier record has the message.
    fn earlier(age_ns: u64, first: (u64, u64)) -> Self {
        Self {
            age_ns,
            data: None,
            shared: None,
            earlier: Some(first),
            user: None,
            at_ms: None,
            has_left: None,
        }
    }
}

impl SharedRecord {
    fn of(message: &SharedMessage) -> Self {
        Self {
            channel: message.origin.channel.as_str().to_owned(),
            epoch: message.origin.epoch.to_string(),
            offset: message.origin.offset,
            places: message.places.iter().map(|place| (place.log, place.offset)).collect(),
        }
    }
}

fn restore_log<S: Subscriber>(
    name: &ChannelName,
    epoch: &str,
    now: Timestamp,
    (last, messages): (u64, Vec<MessageRecord>),
    restored: &mut RestoredLogs<S>,
) -> Result<Log, BadLog> {
    let mut log = Log::after(last - messages.len() as u64);
    let mut before = Timestamp::from_nanos(0);
    for message in messages {
        let offset = log.next_offset();
        let age = Duration::from_nanos(message.age_ns);
        before = now.before(age).unwrap_or(before).max(before);
        let (message, is_new) = restore_message(name, epoch, offset, message, restored)?;
        log.push(before, message, is_new);
    }
    Ok(log)
}

/// Returns whether no other log has it yet, too.
fn restore_keys(log: &mut Log, now: Timestamp, keys: Vec<KeyRecord>) -> Result<(), BadLog> {
    let last = log.bounds().last;
    let mut before = Timestamp::from_nanos(0);
    for KeyRecord { publisher, key, age_ns, offset } in keys {
        let publisher = Publisher::of_text(&publisher).ok_or(BadLog("has a key of nobody"))?;
        check(PublishKey::new(key.as_str().into()).is_some(), "has a key that is none")?;
        check((1..=last).contains(&offset), "has a key of no message")?;
        before = now.before(Duration::from_nanos(age_ns)).unwrap_or(before).max(before);
        let id = PublishId { publisher, key: key.into() };
        check(log.published_as(&id, None).is_none(), "has a key twice")?;
        log.remember_as(id, before, offset);
    }
    Ok(())
}

fn restore_message<S: Subscriber>(
    name: &ChannelName,
    epoch: &str,
    offset: u64,
    message: MessageRecord,
    restored: &mut RestoredLogs<S>,
) -> Result<(LogMessage, bool), BadLog> {
    let Some(data) = message.data else {
        let earlier = message.earlier.and_then(|first| restored.shared.get(&first));
        let earlier = earlier.ok_or(BadLog("shares a message with none"))?;
        return Ok((LogMessage::Shared(Arc::clone(earlier)), false));
    };
    let data = CompactJson::parse(&data).map_err(|_| BadLog("has data that was never published"))?;
    let at_ms = message.at_ms;
    let kind = match message.has_left {
        None => Kind::Data,
        Some(false) => Kind::Joined,
        Some(true) => Kind::Left,
    };
    let content = Content { kind, user: message.user.map(Into::into), at_ms, data };
    let Some(shared) = message.shared else {
        let message = Message { channel: name.told(), epoch, offset, at_ms, content: &content };
        return Ok((LogMessage::Own(Encodings::new(&message)), true));
    };
    let channel = ChannelName::new(&shared.channel, usize::MAX).map_err(|_| BadLog("shares with no name"))?;
    let message = Message {
        channel: channel.as_str(),
        epoch: &shared.epoch,
        offset: shared.offset,
        at_ms,
        content: &content,
    };
    let encodings = Encodings::new(&message);
    let places: Box<[Place]> = shared.places.iter().map(|&(log, offset)| Place { log, offset }).collect();
    let first = first_place(&places);
    let origin = Origin { channel, epoch: shared.epoch.into(), offset: shared.offset };
    let message = Arc::new(SharedMessage { encodings, origin, places });
    let before = restored.shared.insert(first, Arc::clone(&message));
    check(before.is_none(), "has a shared message that comes twice")?;
    Ok((LogMessage::Shared(message), true))
}
