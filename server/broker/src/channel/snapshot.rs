//! Saves logs, and restores them in another process.
//!
//! Logs keep their numbers and epochs, so that cursors and positions stay valid. A message shared by several
//! logs is written with the first of them; the records of the others refer to it. For a log owned by an
//! engine, only the position is written, and only if a session subscribes to it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;
use encke_core::dialect::PublishKey;
use encke_core::dialect::json::EncodedMessage;
use encke_core::message::{CompactJson, Content, ContentKind, Message};
use encke_core::session::MAX_OFFSET;
use encke_core::session::outbox::LogPosition;
use encke_timeouts::clock::nanos;

use super::budget::CreatorAccount;
use super::channels::Channels;
use super::epoch::LogEpoch;
use super::log::ChannelLog;
use super::message::{LogMessage, Origin, SharedMessage};
use super::name::ChannelName;
use super::publish_ids::{PublishId, Publisher};
use super::record::{KeyRecord, LogRecord, MessageRecord, PositionRecord, SharedRecord};
use super::state::Channel;
use super::subscriber::Subscriber;

/// Number of logs looked up at a time.
const PAGE: usize = 1024;

/// Why the record of a channel cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of a channel {0}")]
pub struct InvalidLog(&'static str);

/// Logs and shared messages written so far.
#[derive(Debug, Default)]
pub struct LogsWritten {
    logs: HashSet<u64>,
    /// First positions of shared messages.
    shared: HashSet<(u64, u64)>,
}

/// Logs and shared messages restored so far.
#[derive(Debug)]
pub struct RestoredLogs<S: Subscriber> {
    logs: HashMap<u64, (Arc<Channel<S>>, Option<u64>)>,
    shared: HashMap<(u64, u64), Arc<SharedMessage>>,
    /// Stand-ins for remote logs, for sessions that no longer subscribe to them.
    ended: HashMap<u64, Arc<Channel<S>>>,
}

impl<S: Subscriber> Default for RestoredLogs<S> {
    fn default() -> Self {
        Self { logs: HashMap::new(), shared: HashMap::new(), ended: HashMap::new() }
    }
}

impl<S: Subscriber> RestoredLogs<S> {
    /// Returns the log with this number.
    pub fn get(&self, number: u64) -> Option<&Arc<Channel<S>>> {
        self.logs.get(&number).map(|(channel, _)| channel)
    }
}

impl<S: Subscriber> Channels<S> {
    /// Returns a number that is higher than all channel numbers assigned so far.
    pub fn number_bound(&self) -> u64 {
        self.table().next_unused_number()
    }

    /// Reserves the channel numbers below `numbers`.
    ///
    /// # Errors
    /// [`InvalidLog`] if `numbers` is out of range.
    pub fn restore_numbers(&self, numbers: u64) -> Result<(), InvalidLog> {
        if let Some(last) = numbers.checked_sub(1) {
            check(last < MAX_OFFSET, "has an invalid number")?;
            self.table().reserve_numbers(last);
        }
        Ok(())
    }

    /// Writes all local logs, one after the other.
    pub fn snapshot<E>(
        &self,
        written: &mut LogsWritten,
        mut write: impl FnMut(&LogRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor: Option<ChannelName> = None;
        loop {
            let page = self.after(cursor.as_ref().map(ChannelName::as_str), PAGE);
            for channel in page.iter().filter(|channel| !channel.is_remote()) {
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

    /// Serializes a log, unless it has already been written.
    pub fn snapshot_of(&self, channel: &Channel<S>, written: &mut LogsWritten) -> Option<LogRecord> {
        if !written.logs.insert(channel.number()) {
            return None;
        }
        let now = self.retention().now();
        let state = channel.state.lock();
        // A retired remote log has messages that are stored nowhere else.
        let is_remote = channel.is_remote() && !state.retired;
        let kept = state.log.since(0).filter(|_| !is_remote);
        let messages = kept.map(|(_, at, message)| {
            let age_ns = nanos(now.since(at));
            let shared = match message {
                LogMessage::Own(_) => None,
                LogMessage::Shared(shared) => {
                    let first = first_position(&shared.positions);
                    if !written.shared.insert(first) {
                        return MessageRecord::earlier(age_ns, first);
                    }
                    Some(SharedRecord::of(shared))
                }
            };
            MessageRecord::of(age_ns, &message.encoded().content(), shared)
        });
        let keys = state.log.publish_ids().map(|(id, at, offset)| KeyRecord {
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
            creator: channel.account().creator().to_text(),
            last: state.log.bounds().last,
            retired: state.retired,
            left_at: state.idle_number.map(|_| state.last_at_leave),
            is_remote,
            past: channel.past_epochs().iter().map(|(epoch, cut)| ((**epoch).to_owned(), *cut)).collect(),
        })
    }

    /// Number of removed channels whose positions are kept.
    pub fn kept_position_count(&self) -> usize {
        self.retention().positions.len()
    }

    /// Returns the positions of removed channels, oldest first.
    pub fn kept_positions(&self) -> Vec<PositionRecord> {
        self.retention().positions.records()
    }

    /// Restores positions of removed channels, oldest first. If there are more than this process may keep, the
    /// oldest are dropped.
    ///
    /// # Errors
    /// [`InvalidLog`], in which case nothing changes.
    pub fn restore_positions(&self, records: &[PositionRecord]) -> Result<(), InvalidLog> {
        check(records.iter().all(|record| record.last < MAX_OFFSET), "has an invalid position")?;
        records.iter().for_each(|record| self.retention().positions.restore(record));
        Ok(())
    }

    /// Restores a log.
    ///
    /// # Errors
    /// [`InvalidLog`], in which case nothing changes.
    pub fn restore(&self, record: LogRecord, restored: &mut RestoredLogs<S>) -> Result<(), InvalidLog> {
        let name = ChannelName::from_log(&record.name).map_err(|_| InvalidLog("has an invalid name"))?;
        let creator = QuotaOwner::from_text(&record.creator).ok_or(InvalidLog("has an invalid creator"))?;
        check(record.number < MAX_OFFSET, "has an invalid number")?;
        check(!restored.logs.contains_key(&record.number), "is a duplicate")?;
        check(
            record.last < MAX_OFFSET && record.messages.len() as u64 <= record.last,
            "has too many messages",
        )?;
        check(!record.is_remote || record.messages.is_empty(), "has messages although it is remote")?;
        let past = record.past.into_iter().map(|(epoch, cut)| (epoch.into(), cut)).collect();
        let epoch = LogEpoch { id: record.epoch.into(), last: 0, past, is_loading: record.is_remote };
        let make = |account| self.table().new_channel(name.clone(), account, record.number, epoch.clone());
        let now = self.retention().now();
        let mut log = restore_log(&name, epoch.named(), now, (record.last, record.messages), restored)?;
        restore_keys(&mut log, now, record.keys)?;
        let channel = if record.retired {
            let channel = make(CreatorAccount::new(creator));
            self.retention().retire_unlisted(&channel);
            log.enforce_limits(self.retention().log_limits(&channel));
            channel.state.lock().log = log;
            channel
        } else {
            let channel = self
                .table()
                .insert_restored(&name, creator, make)
                .ok_or(InvalidLog("has a duplicate name"))?;
            self.retention().install(&channel, log, || false);
            channel
        };
        self.table().reserve_numbers(record.number);
        restored.logs.insert(record.number, (channel, record.left_at));
        Ok(())
    }

    /// Returns the log state kept for a session whose subscription has ended. For a remote log this is an
    /// empty stand-in, because a former subscriber is not notified when the log has been loaded.
    pub fn log_of_former_subscriber(
        &self,
        number: u64,
        restored: &mut RestoredLogs<S>,
    ) -> Option<Arc<Channel<S>>> {
        let channel = restored.get(number)?;
        if !channel.is_remote() || channel.state.lock().retired {
            return Some(Arc::clone(channel));
        }
        if let Some(ended) = restored.ended.get(&number) {
            return Some(Arc::clone(ended));
        }
        let ended = self.stand_in(channel, channel.shared_epoch(), channel.last_offset());
        restored.ended.insert(number, Arc::clone(&ended));
        Some(ended)
    }

    /// Creates an empty log in place of an earlier log of a channel, whose last message was `last`.
    pub fn stand_in(&self, channel: &Channel<S>, epoch: Arc<str>, last: u64) -> Arc<Channel<S>> {
        let epoch = LogEpoch { last, ..LogEpoch::with_id(epoch) };
        let account = CreatorAccount::new(channel.account().creator().clone());
        let (name, number) = (channel.name().clone(), self.table().next_number());
        let ended = self.table().new_channel(name, account, number, epoch);
        self.retention().retire_unlisted(&ended);
        ended
    }

    /// Completes the restore after all subscribers have been restored: enforces limits again, and marks logs
    /// without subscribers as idle. Returns the logs that still exist.
    pub fn finish_restore(&self, restored: RestoredLogs<S>) -> Vec<Arc<Channel<S>>> {
        let RestoredLogs { logs, shared, ended: _ } = restored;
        // Release the last extra references, so that dropped messages count as freed.
        drop(shared);
        let mut settled = Vec::with_capacity(logs.len());
        for (channel, left_at) in logs.into_values().filter(|(channel, _)| !channel.state.lock().retired) {
            self.retention().trim(&channel, |log| log.enforce_limits(self.retention().log_limits(&channel)));
            let mut state = channel.state.lock();
            if let (Some(_), Some(left_at)) = (state.idle_number, left_at) {
                state.last_at_leave = left_at.min(state.log.bounds().last);
            }
            if !state.retired {
                drop(state);
                settled.push(channel);
            }
        }
        self.retention().enforce_budget(self.retention().now());
        settled
    }
}

fn check(condition: bool, problem: &'static str) -> Result<(), InvalidLog> {
    if condition { Ok(()) } else { Err(InvalidLog(problem)) }
}

fn first_position(positions: &[LogPosition]) -> (u64, u64) {
    positions.first().map_or((0, 0), |position| (position.log, position.offset))
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
                ContentKind::Data => None,
                ContentKind::Joined => Some(false),
                ContentKind::Left => Some(true),
            },
        }
    }

    /// Record of a message whose data is in an earlier record.
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
            positions: message.positions.iter().map(|position| (position.log, position.offset)).collect(),
        }
    }
}

fn restore_log<S: Subscriber>(
    name: &ChannelName,
    named_epoch: Option<&str>,
    now: Timestamp,
    (last, messages): (u64, Vec<MessageRecord>),
    restored: &mut RestoredLogs<S>,
) -> Result<ChannelLog, InvalidLog> {
    let mut log = ChannelLog::starting_after(last - messages.len() as u64);
    let mut before = Timestamp::from_nanos(0);
    for message in messages {
        let offset = log.next_offset();
        let age = Duration::from_nanos(message.age_ns);
        before = now.before(age).unwrap_or(before).max(before);
        let (message, is_new) = restore_message(name, named_epoch, offset, message, restored)?;
        log.push(before, message, is_new);
    }
    Ok(log)
}

fn restore_keys(log: &mut ChannelLog, now: Timestamp, keys: Vec<KeyRecord>) -> Result<(), InvalidLog> {
    let last = log.bounds().last;
    let mut before = Timestamp::from_nanos(0);
    for KeyRecord { publisher, key, age_ns, offset } in keys {
        let publisher = Publisher::from_text(&publisher)
            .ok_or(InvalidLog("has a publish id with an invalid publisher"))?;
        check(PublishKey::new(key.as_str().into()).is_some(), "has an invalid publish key")?;
        check((1..=last).contains(&offset), "has a publish id without a message")?;
        before = now.before(Duration::from_nanos(age_ns)).unwrap_or(before).max(before);
        let id = PublishId { publisher, key: key.into() };
        check(log.find_publish(&id, None).is_none(), "has a duplicate publish id")?;
        log.record_publish_id_at(id, before, offset);
    }
    Ok(())
}

fn restore_message<S: Subscriber>(
    name: &ChannelName,
    named_epoch: Option<&str>,
    offset: u64,
    message: MessageRecord,
    restored: &mut RestoredLogs<S>,
) -> Result<(LogMessage, bool), InvalidLog> {
    let Some(data) = message.data else {
        let earlier = message.earlier.and_then(|first| restored.shared.get(&first));
        let earlier = earlier.ok_or(InvalidLog("refers to an unknown shared message"))?;
        return Ok((LogMessage::Shared(Arc::clone(earlier)), false));
    };
    let data = CompactJson::parse(&data).map_err(|_| InvalidLog("has a message with invalid data"))?;
    let at_ms = message.at_ms;
    let kind = match message.has_left {
        None => ContentKind::Data,
        Some(false) => ContentKind::Joined,
        Some(true) => ContentKind::Left,
    };
    let content = Content { kind, user: message.user.map(Into::into), at_ms, data };
    let Some(shared) = message.shared else {
        let (channel, epoch) = (name.client_name(), named_epoch);
        let message = Message { channel, epoch, offset, at_ms, content: &content };
        return Ok((LogMessage::Own(EncodedMessage::new(&message)), true));
    };
    let channel = ChannelName::new(&shared.channel, usize::MAX)
        .map_err(|_| InvalidLog("has a shared message with an invalid channel"))?;
    let message =
        Message { channel: channel.as_str(), epoch: None, offset: shared.offset, at_ms, content: &content };
    let encoded = EncodedMessage::new(&message);
    let positions: Box<[LogPosition]> =
        shared.positions.iter().map(|&(log, offset)| LogPosition { log, offset }).collect();
    let first = first_position(&positions);
    let origin = Origin { channel, epoch: shared.epoch.into(), offset: shared.offset };
    let message = Arc::new(SharedMessage { encoded, origin, positions });
    let before = restored.shared.insert(first, Arc::clone(&message));
    check(before.is_none(), "has a duplicate shared message")?;
    Ok((LogMessage::Shared(message), true))
}
