//! Messages that arrive in the answer to a poll before the reply to a subscribe sent while the poll was held.
//!
//! The start of the subscription is not known yet, so everything needed to check a message later is recorded
//! when it arrives.

use super::session_model::ChannelPosition;

/// Input of a channel that arrived before the reply to its subscribe.
#[derive(Clone, Copy, Debug)]
pub(super) enum EarlyInput {
    Message(EarlyMessage),
    Gap,
}

/// A message, with the client's knowledge at the time of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyMessage {
    pub(super) offset: u64,
    pub(super) number: u64,
    /// First offset of the known messages that directly precede this one.
    pub(super) known_from: u64,
    /// Whether no other subscription had delivered the message.
    pub(super) is_new: bool,
}

impl EarlyInput {
    pub(super) fn message(&self) -> Option<EarlyMessage> {
        match self {
            Self::Message(message) => Some(*message),
            Self::Gap => None,
        }
    }
}

impl EarlyMessage {
    /// Checks the message once the reply to the subscribe has arrived, and advances `position`, which is the
    /// client's position before the message.
    pub(super) fn came_at(self, position: &mut ChannelPosition) -> Result<(), String> {
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
