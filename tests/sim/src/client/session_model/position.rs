//! Position of a client in a log.

use super::ReceivedMessage;
use crate::outcome::Verdict;
use crate::truth::LogTruth;

#[derive(Clone, Debug)]
pub(crate) struct ChannelPosition {
    pub(crate) epoch: String,
    /// Offset after which the subscription starts.
    pub(super) start_offset: u64,
    /// Seq after which the subscription starts; earlier seqs belong to an earlier subscription.
    pub(super) start_seq: u64,
    /// Offset of the last message that was requested explicitly. Another subscription may have delivered it,
    /// and earlier ones, already.
    pub(super) requested_up_to: u64,
    /// Whether the subscribe was sent in a separate request. If so, messages of an earlier subscription, in
    /// another epoch, may still arrive.
    pub(super) was_sent_beside: bool,
    /// Whether the epoch was inferred from the messages received, rather than announced by the server.
    pub(super) is_epoch_inferred: bool,
    /// Seq of the last message received.
    pub(super) last_seq: u64,
    /// Offset of the last message in sequence: all messages up to it were received or reported as missing.
    /// Later ones may have arrived by another subscription.
    pub(crate) up_to: u64,
}

impl ChannelPosition {
    pub(super) fn new(epoch: &str, start_offset: u64, start_seq: u64) -> Self {
        Self {
            epoch: epoch.to_owned(),
            start_offset,
            start_seq,
            requested_up_to: start_offset,
            was_sent_beside: false,
            is_epoch_inferred: false,
            last_seq: 0,
            up_to: start_offset,
        }
    }

    /// Returns whether a message belongs to an earlier subscription, in another epoch. A repeated message
    /// belongs to the epoch in which it was first sent.
    pub(super) fn is_of_other_subscription(&self, message: ReceivedMessage<'_>, log: &LogTruth) -> bool {
        let ReceivedMessage { seq, offset, number, .. } = message;
        self.was_sent_beside && log.is_in_earlier_epoch(&self.epoch, offset, number)
            || seq <= self.start_seq && log.is_in_other_epoch(&self.epoch, offset, number)
    }

    /// Changes the epoch if a new message shows that the session is in another one. The message has to name it,
    /// so that the client knows its position.
    pub(super) fn follow_epoch(
        &mut self,
        message: ReceivedMessage<'_>,
        log: &LogTruth,
        has_gone_back: bool,
    ) -> Verdict {
        let ReceivedMessage { seq, offset, number, .. } = message;
        // A message contained in both epochs may have been sent in either.
        let is_of_former = log.message_of(&self.epoch, offset) == Some(number);
        let is_of_present = log.message(offset) == Some(number);
        let named = message.epoch.filter(|epoch| log.was_before(&self.epoch, epoch));
        let must_name = message.epoch != Some(&*self.epoch)
            && log.may_continue_as(&self.epoch, log.epoch())
            && is_of_present
            && !is_of_former;
        if must_name && named.is_none() && !has_gone_back {
            return Err(format!("message {offset} arrived at {self:?} and names no newer epoch"));
        }
        if let Some(next) = named.or(must_name.then(|| log.epoch())) {
            // A new epoch of the log has continued the former one, with all its messages. If the client subscribed
            // again, messages from before the reply may still arrive.
            let up_to = if offset <= self.requested_up_to { offset - 1 } else { self.up_to };
            if !log.continues_from(&self.epoch, next, up_to) {
                if !has_gone_back {
                    return Err(format!(
                        "message {offset} arrived at {self:?}, which the new epoch {next} does not continue"
                    ));
                }
                // The client had already acknowledged the gap that reported the missing messages, so this gap
                // is not sent again. The server reports the loss later, when it sends the ring.
                *self = Self { was_sent_beside: self.was_sent_beside, ..Self::new("", offset - 1, seq - 1) };
            }
            next.clone_into(&mut self.epoch);
            self.is_epoch_inferred = named.is_none();
        }
        if self.is_epoch_inferred && log.message_of(&self.epoch, offset) != Some(number) {
            // All messages received so far are also in another epoch, and the session is still in that epoch.
            let epoch = log.epoch_containing(offset, number);
            let numbers = log.message_of(&self.epoch, self.up_to).zip(log.message_of(epoch, self.up_to));
            if numbers.is_none_or(|(one, other)| one == other) {
                epoch.clone_into(&mut self.epoch);
            }
        }
        Ok(())
    }
}
