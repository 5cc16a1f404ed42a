use std::task::Poll;

use crate::client::Attachment;
use crate::rest::Pace;
use crate::session::Notes;
use crate::transport::Socket;
use crate::transport::metered::Metered;

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
    /// While it is pending, a note wakes the task, or what the client says.
    pub(super) fn poll<S: Socket>(
        &mut self,
        socket: &Metered<S>,
        attachment: &Attachment,
        pace: &mut Pace,
        spoke: &mut bool,
    ) -> Poll<()> {
        // What woke the task may be what the runtime does not know of yet: it will wake the task.
        let was_silent = self.is_over(attachment, pace, spoke) && socket.is_silent();
        if was_silent { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether a delay in which the client said nothing is over. If not, the connection is in the line for the next.
    fn is_over(&mut self, attachment: &Attachment, pace: &mut Pace, spoke: &mut bool) -> bool {
        let Attachment { link, context, .. } = attachment;
        let Some(rest) = &context.rest else { return false };
        if matches!(self, Self::Over) {
            *self = Self::NotYet;
            if !*spoke {
                return true;
            }
            pace.spoke(rest.after);
        }
        let delay = pace.delay(rest.after);
        if delay.is_zero() {
            return true;
        }
        if matches!(self, Self::NotYet) {
            *spoke = false;
            rest.line.join(context.timeouts.clock().now(), delay, (link.session(), link.id));
            *self = Self::InLine;
        }
        false
    }
}
