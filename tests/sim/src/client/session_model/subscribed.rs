//! Processing of the reply to a subscribe, which contains the client's position in the channel.

use encke_core::dialect::StartPosition;

use super::super::early_input::{EarlyInput, EarlyMessage};
use super::{ChannelPosition, ChannelSubscription, SessionModel};
use crate::truth::Truth;

/// The reply to a subscribe, with data needed to check it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Subscribed<'a> {
    pub(in super::super) epoch: &'a str,
    pub(in super::super) offset: u64,
    /// Start that the client requested.
    pub(in super::super) begin: &'a StartPosition<'static>,
    pub(in super::super) recovered: Option<bool>,
    /// Offset of the oldest message in the log, if the log still has this epoch.
    pub(in super::super) first: Option<u64>,
    /// Whether the reply came in a separate response, so messages may have overtaken it.
    pub(in super::super) is_beside: bool,
}

impl SessionModel {
    /// Processes the reply to a subscribe.
    pub(in super::super) fn subscribed(
        &mut self,
        channel: u8,
        answer: &Subscribed<'_>,
        truth: &Truth,
    ) -> Result<(), String> {
        let Subscribed { epoch, offset, begin, recovered, first, is_beside } = *answer;
        let start_seq = self.highest;
        let early: Vec<EarlyInput> =
            self.early.extract_if(.., |(of, _)| *of == channel).map(|(_, early)| early).collect();
        let subscription = self.subscription(channel);
        if !matches!(subscription, ChannelSubscription::Requested) {
            return Ok(());
        }
        let early = if is_beside { early } else { Vec::new() };
        if early.iter().any(|early| matches!(early, EarlyInput::Gap)) {
            *subscription = ChannelSubscription::Unknown;
            return Ok(());
        }
        let start_offset = match (begin, first) {
            (StartPosition::After(since), _) if recovered.is_some() => {
                // If the session cannot continue at this position, the server first reports a gap of unknown
                // length.
                (since.epoch == epoch && since.offset <= offset).then_some(since.offset)
            }
            (StartPosition::Now | StartPosition::After(_), _) | (StartPosition::Newest(0), _) => Some(offset),
            (StartPosition::Newest(count), Some(first)) if early.is_empty() => {
                let start_offset = offset.saturating_sub(*count);
                // Treat messages that are no longer in the log as known, because they may not be delivered.
                // Don't move the start: the log may have been longer when the subscribe was executed.
                let channel_log = truth.channel(channel);
                self.known.extend((start_offset + 1..first).filter_map(|offset| channel_log.message(offset)));
                Some(start_offset)
            }
            (StartPosition::Newest(_), _) => None,
        };
        let subscription = self.subscription(channel);
        let Some(start_offset) = start_offset else {
            *subscription = ChannelSubscription::Unknown;
            return Ok(());
        };
        let mut position = ChannelPosition {
            epoch: epoch.to_owned(),
            start_offset,
            start_seq,
            requested_up_to: offset,
            was_sent_beside: is_beside,
            is_epoch_inferred: false,
            up_to: start_offset,
        };
        let channel_log = truth.channel(channel);
        let is_of_this_life =
            |early: &EarlyMessage| !channel_log.is_in_other_epoch(epoch, early.offset, early.number);
        for early in early.iter().filter_map(EarlyInput::message).filter(is_of_this_life) {
            early.came_at(&mut position).map_err(|what| format!("{what} of channel {channel}"))?;
        }
        *subscription = ChannelSubscription::Active(position);
        Ok(())
    }
}
