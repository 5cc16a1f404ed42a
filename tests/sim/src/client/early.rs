//! What comes by a poll before the answer to the subscribe that its client has sent beside it.
//!
//! Where the subscription begins is not known yet: what can be told of a message only when it comes is kept until then.

use super::page::Place;

/// What came of a channel before the answer to its subscribe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Early {
    Message(EarlyMessage),
    Gap,
}

/// A message, and what its client knew when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyMessage {
    pub(super) offset: u64,
    pub(super) number: u64,
    /// All messages of the log from here to this one were known.
    pub(super) known_from: u64,
    /// No other subscription had brought it.
    pub(super) is_new: bool,
}

impl Early {
    pub(super) fn message(&self) -> Option<EarlyMessage> {
        match self {
            Self::Message(message) => Some(*message),
            Self::Gap => None,
        }
    }
}

impl EarlyMessage {
    /// Its subscription was answered: it was at this place when the message came.
    pub(super) fn came_at(self, place: &mut Place) -> Result<(), String> {
        let Self { offset, known_from, is_new, .. } = self;
        // It is of an earlier subscription.
        if offset <= place.begun {
            return Ok(());
        }
        if offset <= place.up_to {
            return Err(format!("message {offset} came twice: {place:?}"));
        }
        if !is_new && offset > place.asked_up_to {
            return Err(format!("message {offset} of {place:?} came by another subscription before"));
        }
        if known_from > place.up_to + 1 {
            return Err(format!("message {offset} came at {place:?}: some are missing, and it was not told"));
        }
        place.up_to = offset;
        Ok(())
    }
}
