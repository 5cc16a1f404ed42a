//! History of channels in Redis, which need not have a local log.

use std::borrow::Cow;
use std::sync::Arc;

use encke_core::message::Content;
use encke_core::session::outbox::LogBounds;
use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, from_redis_value};

use super::client::{RESPONSE_TIMEOUT, RedisClient};
use super::keys::ChannelKeys;
use super::message::{LogEntry, OpenedChannel, parse_offset};
use crate::channel::{ChannelName, HistoryLimit, HistoryMessage, HistoryPart, Subscriber};
use crate::engine::error::EngineError;
use crate::engine::log_engine::History;
use crate::engine::response::EngineResponse;

/// Maximum number of entries read at once if the result is limited in bytes or omits joins and leaves, because Redis
/// can limit only the number of entries.
const STEP: usize = 32;

impl<S: Subscriber> RedisClient<S> {
    /// Reads messages of a channel's log in Redis.
    pub(super) fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>> {
        // Redis has no logs for patterns.
        if channel.is_pattern() {
            let (log, now) = (self.channels.get(channel.as_str()), self.timeouts.clock().now());
            return EngineResponse::Ready(Ok(log.map(|log| History::of(&log, part, limit, now))));
        }
        let Some(connections) = self.connections() else {
            return EngineResponse::Ready(Err(EngineError::Unavailable));
        };
        let permit = limit.bytes.map(|_| Arc::clone(&self.client_reads).try_acquire_owned()).transpose();
        let Ok(permit) = permit else { return EngineResponse::Ready(Err(EngineError::Overloaded)) };
        let keys = self.keys.for_channel(channel.as_str());
        let has_time = self.channels.namespaces().rules_of(channel.as_str()).at_ms;
        let read = async move {
            let _permit = permit;
            let read = read_in_steps(connections.reads, &keys, part, limit).await?;
            Ok::<_, RedisError>(read.map(|read| read.into_history(part, limit, has_time)))
        };
        let reply = self.timeouts.within(RESPONSE_TIMEOUT, read);
        EngineResponse::Pending(
            reply.map(|read| read.and_then(Result::ok).ok_or(EngineError::Unavailable)).boxed(),
        )
    }
}

/// Entries of a log, in the order in which they were read: from the newest on if the query names the end.
struct ReadLog {
    epoch: Box<str>,
    bounds: LogBounds,
    entries: Vec<LogEntry>,
}

/// Reads a part of a log until the limit is reached. `None` if the channel does not exist.
async fn read_in_steps(
    mut reads: MultiplexedConnection,
    keys: &ChannelKeys,
    mut part: HistoryPart,
    limit: HistoryLimit,
) -> Result<Option<ReadLog>, RedisError> {
    let mut log: Option<ReadLog> = None;
    loop {
        let left = limit.messages - log.as_ref().map_or(0, |log| log.entries.len());
        let count = match limit.bytes {
            _ if limit.without_notices => STEP,
            Some(_) => left.min(STEP),
            None => left,
        };
        let Some(mut step) = read_step(&mut reads, keys, part, count).await? else { return Ok(log) };
        let is_last = step.entries.len() < count;
        let read_up_to = step.entries.last().map(|last| last.offset);
        if limit.without_notices {
            step.entries.retain(LogEntry::is_data);
        }
        match &mut log {
            None => log = Some(step),
            // The first step is a page of an epoch that has ended.
            Some(log) if log.epoch != step.epoch => break,
            Some(log) => {
                // Messages may have been published since the first step.
                log.bounds = step.bounds;
                log.entries.append(&mut step.entries);
            }
        }
        let Some(entries) = log.as_ref().map(|log| &log.entries) else { break };
        let fitting = limit.count_fitting(entries.iter().map(LogEntry::size));
        let Some(read_up_to) = read_up_to else { break };
        if is_last || entries.len() >= limit.messages || fitting < entries.len() {
            break;
        }
        part = match part {
            HistoryPart::After(_) => HistoryPart::After(read_up_to),
            HistoryPart::Between { after, .. } => HistoryPart::Between { after, before: read_up_to },
        };
    }
    Ok(log)
}

/// Reads at most `count` messages. `None` if the channel does not exist.
async fn read_step(
    reads: &mut MultiplexedConnection,
    keys: &ChannelKeys,
    part: HistoryPart,
    count: usize,
) -> Result<Option<ReadLog>, RedisError> {
    let mut pipeline = redis::pipe();
    pipeline.add_command(cmd("TIME"));
    pipeline.cmd("HMGET").arg(&keys.meta).arg("epoch").arg("offset");
    pipeline.cmd("XRANGE").arg(&keys.log).arg("-").arg("+").arg("COUNT").arg(1);
    let (command, from, to) = match part {
        HistoryPart::After(offset) => ("XRANGE", entry_id(offset.saturating_add(1)), "+".to_owned()),
        HistoryPart::Between { after, before } => {
            ("XREVRANGE", entry_id(before.saturating_sub(1)), entry_id(after.saturating_add(1)))
        }
    };
    pipeline.cmd(command).arg(&keys.log).arg(from).arg(to).arg("COUNT").arg(count);
    pipeline.atomic();
    let (time, (epoch, offset), first, entries): (Value, (Option<String>, Option<i64>), Value, Value) =
        pipeline.query_async(reads).await?;
    let (seconds, micros): (u64, u64) = from_redis_value(time)?;
    let Some(epoch) = epoch else { return Ok(None) };
    let (last, now_ms) = (parse_offset(offset.unwrap_or(0))?, seconds * 1000 + micros / 1000);
    let first = OpenedChannel::entries(first, now_ms)?.first().map_or(last + 1, |entry| entry.offset);
    let entries = OpenedChannel::entries(entries, now_ms)?;
    Ok(Some(ReadLog { epoch: epoch.into(), bounds: LogBounds { first, last }, entries }))
}

/// Stream entry id of a message.
fn entry_id(offset: u64) -> String {
    format!("0-{offset}")
}

impl ReadLog {
    /// Selects the messages that fit. `has_time`: whether subscribers receive the time of publication.
    fn into_history(mut self, part: HistoryPart, limit: HistoryLimit, has_time: bool) -> History {
        self.entries.truncate(limit.messages);
        self.entries.truncate(limit.count_fitting(self.entries.iter().map(LogEntry::size)));
        if let HistoryPart::Between { .. } = part {
            self.entries.reverse();
        }
        let messages = self.entries.into_iter().filter_map(|entry| {
            let Content { kind, user, data, at_ms } = entry.content()?;
            let (user, data) = (user.map(Cow::into_owned), data.as_str().to_owned());
            let at_ms = at_ms.filter(|_| has_time);
            Some(HistoryMessage {
                offset: entry.offset,
                age: entry.age,
                origin: None,
                user,
                at_ms,
                kind,
                data,
            })
        });
        History { epoch: self.epoch, bounds: self.bounds, messages: messages.collect() }
    }
}
