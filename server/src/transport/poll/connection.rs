use std::future::poll_fn;
use std::pin::Pin;
use std::task::{self, Poll};

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;
use tokio::io::{AsyncRead, ReadBuf};

use super::answer::Content;
use super::form::Form;
use crate::admission::UnfinishedMessage;
use crate::client::{Attachment, Sender};
use crate::session::{Backlog, Notes};
use crate::transport::Socket;
use crate::transport::following::Following;
use crate::transport::metered::Metered;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

/// About the most that one answer carries. The rest follows with the next, for which the client asks at once.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// How much is read of the next request while this one is held: as much as its head may have.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// One poll of a session, owned by its task.
pub(super) struct Connection<S, F> {
    pub(super) socket: Metered<S>,
    pub(super) attachment: Attachment,
    /// What was read of the next request.
    pub(super) read_ahead: Vec<u8>,
    /// That, once it takes memory.
    pub(super) account: Option<UnfinishedMessage<Sender>>,
    /// Until the session follows all channels that the request asked for.
    pub(super) following: Option<Box<Following>>,
    /// The session is the one that the client asked for.
    pub(super) recovered: bool,
    /// The answer is due, whatever there is.
    pub(super) is_due: bool,
    /// What the answer says, and how.
    pub(super) form: F,
    /// What the session has for this connection.
    pub(super) backlog: Backlog,
    /// Of the answer, as lines.
    pub(super) headers: Vec<u8>,
    pub(super) keep_alive: bool,
    /// The answer, once it is made.
    pub(super) out: Unwritten,
    pub(super) hold: WriteHold,
}

/// How a poll ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The kernel has the answer.
    Answered,
    /// The peer is gone, or does not read.
    Lost,
}

impl<S: Socket, F: Form> Connection<S, F> {
    /// Holds the request, and answers it.
    pub(super) async fn run(&mut self) -> Ending {
        poll_fn(|context| poll_steps(|| self.poll_step(context))).await
    }

    /// Lets go of the session.
    pub(super) fn into_socket(self) -> (S, Vec<u8>) {
        (self.socket.into_inner(), self.read_ahead)
    }

    fn poll_step(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        if !self.out.is_empty() {
            return self.poll_write(context);
        }
        let notes = self.attachment.link.take_notes(context);
        if let Some(code) = notes.close_code() {
            let content = self.form.goodbye(code, &self.attachment);
            self.say(&content);
            return Ok(Poll::Ready(()));
        }
        if notes.contains(Notes::SUPERSEDED) {
            let content = self.form.superseded(&self.attachment);
            self.say(&content);
            return Ok(Poll::Ready(()));
        }
        self.is_due |= notes.contains(Notes::ANSWER);
        self.backlog.more |= notes.contains(Notes::READ);
        self.poll_following(context);
        if self.following.is_none() && (self.backlog.more || self.is_due) && self.answer() {
            return Ok(Poll::Ready(()));
        }
        self.poll_read_ahead(context)
    }

    fn poll_following(&mut self, context: &mut task::Context<'_>) {
        let Some(following) = &mut self.following else { return };
        let Poll::Ready(refused) = following.poll(context, &self.attachment, |_, _| {}) else { return };
        self.following = None;
        // What it follows by now may have something to read.
        self.backlog.more = true;
        if !self.recovered {
            self.form.greet(&self.attachment);
        }
        for (channel, reason) in &refused {
            self.form.refused(channel, reason);
        }
        self.is_due |= !refused.is_empty();
    }

    /// Makes the answer, if there is something to say, or if it is due. Returns whether there is one, or perhaps a note that has another.
    fn answer(&mut self) -> bool {
        self.form.begin();
        while self.backlog.more && self.form.len() < MAX_ANSWER_BYTES {
            self.backlog = self.attachment.take_outgoing(&mut self.form);
        }
        if !self.form.has_taken() && !self.is_due {
            return false;
        }
        // From here on, the session has nothing more to say to this poll. What it has said before comes first: then the next
        // connection gets what was taken.
        if !self.attachment.tell(ConnectionInput::Sent) {
            self.form.forget_taken();
            if !self.is_due {
                self.is_due = true;
                return true;
            }
        }
        let content = self.form.answer(&self.attachment);
        self.say(&content);
        true
    }

    /// Has the answer written.
    fn say(&mut self, content: &Content) {
        self.out.bytes = content.response(&self.headers, self.keep_alive);
    }

    fn poll_write(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        match self.out.poll_write(context, &mut self.socket) {
            Poll::Ready(Ok(())) => {
                self.hold.release(&self.attachment);
                self.attachment.tell(ConnectionInput::Answered { pause: self.form.pause() });
                Err(Ending::Answered)
            }
            Poll::Ready(Err(error)) => {
                self.attachment.failed(&error);
                Err(self.lost(SuspendReason::ConnectionLost))
            }
            Poll::Pending => match self.hold.poll(context, &self.socket, &self.attachment) {
                Ok(()) => Ok(Poll::Pending),
                Err(TooSlow) => Err(self.lost(SuspendReason::SlowConsumer)),
            },
        }
    }

    /// Looks whether the client is still there. It may have sent its next request already.
    fn poll_read_ahead(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        let mut scratch = [0; 2048];
        let room = READ_AHEAD_BYTES.saturating_sub(self.read_ahead.len()).min(scratch.len());
        if room == 0 {
            return Ok(Poll::Pending);
        }
        let mut buffer = ReadBuf::new(&mut scratch[..room]);
        match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                self.read_ahead.extend_from_slice(buffer.filled());
                self.socket.account(&mut self.account, self.read_ahead.capacity());
                Ok(Poll::Ready(()))
            }
            Poll::Ready(_) => Err(self.lost(SuspendReason::ConnectionLost)),
        }
    }

    fn lost(&self, reason: SuspendReason) -> Ending {
        self.attachment.tell(ConnectionInput::Ended(reason));
        Ending::Lost
    }
}
