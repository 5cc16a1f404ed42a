//! Messages that arrive by a poll before the answer to the subscribe request sent beside it.
//!
//! The start of the subscription is not known yet, so everything needed to check a message later is recorded
//! when it arrives.

use super::session_model::ChannelPosition;

/// Input of a channel that arrived before the answer to its subscribe.
#[derive(Clone, Copy, Debug)]
pub(super) enum EarlyInput {
    Message(EarlyMessage),
    Gap,
}

/// A message, with the client's knowledge at its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyMessage {
    pub(super) offset: u64,
    pub(super) number: u64,
    /// All messages of the log between this offset and the message were known.
    pub(super) known_from: u64,
    /// No other subscription had delivered the message.
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
    /// Checks the message when the answer has arrived: `place` is the client's position at the arrival of the
    /// message.
    pub(super) fn came_at(self, position: &mut ChannelPosition) -> Result<(), String> {
        let Self { offset, known_from, is_new, .. } = self;
        // Belongs to an earlier subscription.
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
