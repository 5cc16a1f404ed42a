//! The answer to a subscribe, which says where a client is in a channel.

use encke_core::dialect::Beginning;

use super::super::early::{Early, EarlyMessage};
use super::{Following, Page, Place};
use crate::truth::Truth;

/// The answer to a subscribe.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Subscribed<'a> {
    pub(in super::super) epoch: &'a str,
    pub(in super::super) offset: u64,
    /// Where it asked to begin.
    pub(in super::super) begin: &'a Beginning<'static>,
    pub(in super::super) recovered: Option<bool>,
    /// The oldest message in the channel's log now, if the log is that of this life.
    pub(in super::super) first: Option<u64>,
    /// It has come beside the connection: messages may have overtaken it.
    pub(in super::super) is_beside: bool,
}

impl Page {
    /// A subscribe is answered.
    pub(in super::super) fn subscribed(
        &mut self,
        channel: u8,
        answer: &Subscribed<'_>,
        truth: &Truth,
    ) -> Result<(), String> {
        let Subscribed { epoch, offset, begin, recovered, first, is_beside } = *answer;
        let begun_seq = self.highest;
        let early: Vec<Early> =
            self.early.extract_if(.., |(of, _)| *of == channel).map(|(_, early)| early).collect();
        let following = self.following(channel);
        if !matches!(following, Following::Asked) {
            return Ok(());
        }
        let early = if is_beside { early } else { Vec::new() };
        if early.iter().any(|early| matches!(early, Early::Gap)) {
            *following = Following::Unknown;
            return Ok(());
        }
        let begun = match (begin, first) {
            (Beginning::After(since), _) if recovered.is_some() => {
                // Else it is told a gap of unknown length first.
                (since.epoch == epoch && since.offset <= offset).then_some(since.offset)
            }
            (Beginning::Now | Beginning::After(_), _) | (Beginning::Newest(0), _) => Some(offset),
            (Beginning::Newest(count), Some(first)) if early.is_empty() => {
                let begun = offset.saturating_sub(*count);
                // What the log did not have does not come. It may have had more when it was asked.
                let life = truth.channel(channel);
                self.known.extend((begun + 1..first).filter_map(|offset| life.message(offset)));
                Some(begun)
            }
            (Beginning::Newest(_), _) => None,
        };
        let following = self.following(channel);
        let Some(begun) = begun else {
            *following = Following::Unknown;
            return Ok(());
        };
        let mut place = Place {
            epoch: epoch.to_owned(),
            begun,
            begun_seq,
            asked_up_to: offset,
            asked_beside: is_beside,
            is_epoch_seen: false,
            up_to: begun,
        };
        let life = truth.channel(channel);
        let is_of_this_life =
            |early: &EarlyMessage| !life.is_of_another_life(epoch, early.offset, early.number);
        for early in early.iter().filter_map(Early::message).filter(is_of_this_life) {
            early.came_at(&mut place).map_err(|what| format!("{what} of channel {channel}"))?;
        }
        *following = Following::Yes(place);
        Ok(())
    }
}
