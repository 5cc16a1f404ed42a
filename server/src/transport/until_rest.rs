use std::task::Poll;

use crate::client::Attachment;
use crate::rest::Pace;
use crate::session::Notes;

/// Waits for a connection to be silent for long enough to go to rest.
///
/// It waits in a line with all others, and is told by a note: for one timer a connection, most of what it takes to go to rest would be
/// spent on timers.
#[derive(Debug, Default)]
pub(super) enum UntilRest {
    #[default]
    NotYet,
    InLine,
    /// The delay is over.
    Over,
}

impl UntilRest {
    /// For all notes that are left for the connection.
    pub(super) fn hears(&mut self, notes: Notes) {
        if notes.contains(Notes::SO_LONG) {
            *self = Self::Over;
        }
    }

    /// Ready when the client has said nothing for the whole of a delay: that is found at the end of it, so the silence may have been
    /// longer. `spoke` notes whether it did; an answer to a ping does not count, nor what was sent, since both are done at rest, too.
    /// While it is pending, a note wakes the task.
    pub(super) fn poll(&mut self, attachment: &Attachment, pace: &mut Pace, spoke: &mut bool) -> Poll<()> {
        let Attachment { link, context, .. } = attachment;
        let Some(rest) = &context.rest else { return Poll::Pending };
        if matches!(self, Self::Over) {
            *self = Self::NotYet;
            if !*spoke {
                return Poll::Ready(());
            }
            pace.spoke(rest.after);
        }
        let delay = pace.delay(rest.after);
        if delay.is_zero() {
            return Poll::Ready(());
        }
        if matches!(self, Self::NotYet) {
            *spoke = false;
            rest.line.join(context.timeouts.clock().now(), delay, (link.session(), link.id));
            *self = Self::InLine;
        }
        Poll::Pending
    }
}
