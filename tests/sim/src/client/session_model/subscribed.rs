//! Processing of the reply to a subscribe, which contains the client's position in the channel.
//!
//! Messages may arrive in the answer to a poll before the reply to a subscribe sent while the poll was held.
//! The start of the subscription is not known yet, so everything needed to check such a message later is
//! recorded when it arrives.

use encke_core::dialect::StartPosition;

use super::{ChannelPosition, ChannelSubscription, SessionModel};
use crate::outcome::Verdict;
use crate::truth::Truth;

/// A message that arrived before the reply to its subscribe, with the client's knowledge at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EarlyMessage {
    pub(super) offset: u64,
    pub(super) number: u64,
    /// First offset of the known messages that directly precede this one.
    pub(super) known_from: u64,
    /// Whether no other subscription had delivered the message.
    pub(super) is_new: bool,
}

impl EarlyMessage {
    /// Checks the message once the reply to the subscribe has arrived, and advances `position`, which is the
    /// client's position before the message.
    fn came_at(self, position: &mut ChannelPosition) -> Verdict {
        let Self { offset, known_from, is_new, .. } = self;
        // The message belongs to an earlier subscription.
        if offset <= position.start_offset {
            return Ok(());
        }
        if offset <= position.up_to {
            return Err(format!("message {offset} arrived twice: {position:?}"));
        }
        if !is_new && offset > position.requested_up_to {
            return Err(format!(
                "message {offset} of {position:?} was delivered by another subscription before"
            ));
        }
        if known_from > position.up_to + 1 {
            return Err(format!(
                "message {offset} arrived at {position:?}: messages before it are missing and not reported"
            ));
        }
        position.up_to = offset;
        Ok(())
    }
}

/// The reply to a subscribe, with data needed to check it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscribed<'a> {
    pub(crate) epoch: &'a str,
    pub(crate) offset: u64,
    /// Start that the client requested.
    pub(crate) begin: &'a StartPosition<'static>,
    pub(crate) recovered: Option<bool>,
    /// Offset of the oldest message in the log, if the log still has this epoch.
    pub(crate) first: Option<u64>,
    /// Whether Redis still has the position that the client requested, so the server must continue there.
    pub(crate) is_in_redis: bool,
    /// Whether the reply came in a separate response, so messages may have overtaken it.
    pub(crate) is_beside: bool,
}

impl SessionModel {
    pub(crate) fn subscribed(&mut self, log: usize, answer: &Subscribed<'_>, truth: &Truth) -> Verdict {
        let Subscribed { epoch, offset, begin, recovered, first, is_in_redis, is_beside } = *answer;
        let early = self.early.extract_if(.., |(of, _)| *of == log).map(|(_, message)| message);
        // On a WebSocket, the reply waits for those to earlier commands. A gap that overtakes it may belong to a
        // new epoch.
        let early: Vec<_> = early.filter(|message| is_beside || message.is_none()).collect();
        if !matches!(self.channels[log], ChannelSubscription::Requested) {
            return Ok(());
        }
        self.channels[log] = ChannelSubscription::Unknown;
        let published = truth.log(log);
        let start_offset = match (begin, first) {
            _ if early.contains(&None) => None,
            (StartPosition::After(since), _) if recovered.is_some() => {
                let [then, now] = [&*since.epoch, epoch].map(|of| published.message_of(of, since.offset));
                if recovered == Some(true) && then.zip(now).is_some_and(|(then, now)| then != now) {
                    return Err(format!("log {log}: epoch {epoch} does not continue {since:?}"));
                }
                if is_in_redis && (since.epoch != epoch || since.offset > offset) {
                    return Err(format!("log {log} starts at {epoch} {offset}, but Redis has {since:?}"));
                }
                // If the session cannot continue at this position, the server first reports a gap of unknown
                // length.
                let continues = since.epoch == epoch
                    || recovered == Some(true)
                    || published.continues_all(&since.epoch, epoch);
                (continues && since.offset <= offset).then_some(since.offset)
            }
            (StartPosition::Now | StartPosition::After(_), _) | (StartPosition::Newest(0), _) => Some(offset),
            (StartPosition::Newest(count), Some(first)) if early.is_empty() => {
                let start_offset = offset.saturating_sub(*count);
                // Treat messages that are no longer in the log as known, because they may not be delivered.
                // Don't move the start: the log may have been longer when the subscribe was executed.
                let trimmed =
                    (start_offset + 1..first).filter_map(|offset| published.message_of(epoch, offset));
                self.known.reported.extend(trimmed);
                Some(start_offset)
            }
            (StartPosition::Newest(_) | StartPosition::Unknown(_), _) => None,
        };
        let Some(start_offset) = start_offset else { return Ok(()) };
        let mut position = ChannelPosition {
            requested_up_to: offset,
            was_sent_beside: is_beside,
            ..ChannelPosition::new(epoch, start_offset, self.highest)
        };
        for message in early.into_iter().flatten() {
            if !published.is_in_other_epoch(epoch, message.offset, message.number) {
                message.came_at(&mut position).map_err(|what| format!("{what} of log {log}"))?;
            }
        }
        self.channels[log] = ChannelSubscription::Active(position);
        Ok(())
    }
}
