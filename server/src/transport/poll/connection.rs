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
use crate::rest::Pace;
use crate::session::{Backlog, Notes};
use crate::transport::Socket;
use crate::transport::at_rest::Awake;
use crate::transport::following::Following;
use crate::transport::metered::Metered;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::until_rest::UntilRest;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

/// About the most that one answer carries. The rest follows with the next, for which the client asks at once.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// How much is read of the next request while this one is held: as much as its head may have.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// One poll of a session, owned by its task.
pub(crate) struct Connection<S, F> {
    pub(super) socket: Metered<S>,
    pub(super) attachment: Attachment,
    /// It does not count as a request yet.
    pub(super) is_new: bool,
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
    pub(super) headers: Box<[u8]>,
    pub(super) keep_alive: bool,
    /// The answer, once it is made.
    pub(super) out: Unwritten,
    pub(super) hold: WriteHold,
    pub(super) until_rest: UntilRest,
    pub(super) pace: Pace,
}

/// Why a poll's loop has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paused {
    Ended(Ending),
    /// It may go to rest.
    Rest,
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
    /// A poll that has been at rest, and what was read there of the next request.
    pub(super) fn woken(
        awake: Awake<S>,
        form: F,
        headers: Box<[u8]>,
        keep_alive: bool,
        read_ahead: Vec<u8>,
    ) -> Self {
        let (socket, attachment, pace) = awake.into_parts();
        let mut connection = Self::begun(socket, attachment, form, headers, keep_alive);
        (connection.read_ahead, connection.pace) = (read_ahead, pace);
        if !connection.read_ahead.is_empty() {
            connection.account();
        }
        connection
    }

    /// A poll of which its client has nothing more to hear than what its session has.
    pub(super) fn begun(
        socket: Metered<S>,
        attachment: Attachment,
        form: F,
        headers: Box<[u8]>,
        keep_alive: bool,
    ) -> Self {
        Self {
            socket,
            attachment,
            is_new: false,
            read_ahead: Vec::new(),
            account: None,
            following: None,
            recovered: true,
            is_due: false,
            form,
            backlog: Backlog { more: true, until_acknowledged: false },
            headers,
            keep_alive,
            out: Unwritten::default(),
            hold: WriteHold::default(),
            until_rest: UntilRest::default(),
            pace: Pace::default(),
        }
    }

    /// Gives up all that a poll at rest has no use for.
    pub(super) fn into_quiet(self) -> (Awake<S>, F, Box<[u8]>, bool) {
        let Self { socket, attachment, form, headers, keep_alive, pace, .. } = self;
        (Awake::new(socket, attachment, pace), form, headers, keep_alive)
    }

    /// How soon it may rest.
    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// It may rest as soon as this says: the polls before on its connection have found out.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Whose poll it is.
    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// What its answer will say.
    pub(crate) fn form(&self) -> &F {
        &self.form
    }

    /// Holds the request, and answers it; unless it may go to rest before.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| match poll_steps(|| self.poll_step(context)) {
            Poll::Pending if self.is_quiet() => self.poll_rest(),
            polled => polled.map(Paused::Ended),
        })
        .await
    }

    /// Whether there is nothing but to wait.
    fn is_quiet(&self) -> bool {
        !self.backlog.more
            && !self.is_due
            && self.out.is_empty()
            && self.following.is_none()
            && self.read_ahead.is_empty()
            && self.socket.can_rest()
    }

    /// Ready when it was held for long enough, and its client is silent.
    fn poll_rest(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, until_rest, pace, .. } = self;
        // What it says is kept, and keeps it from resting.
        until_rest.poll(socket, attachment, pace, &mut false).map(|()| Paused::Rest)
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
        self.until_rest.hears(notes);
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
            let (backlog, receipts) = self.attachment.take_outgoing(&mut self.form);
            self.backlog = backlog;
            self.out.receipts.add(receipts);
        }
        if !self.form.has_taken() && !self.is_due {
            return false;
        }
        // From here on, the session has nothing more to say to this poll. What it has said before comes first: then the next
        // connection gets what was taken.
        if !self.attachment.tell(ConnectionInput::Sent) {
            self.form.forget_taken();
            self.out.receipts.forget();
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
                self.account();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(_) => Err(self.lost(SuspendReason::ConnectionLost)),
        }
    }

    /// What was read ahead takes memory.
    fn account(&mut self) {
        self.socket.account(&mut self.account, self.read_ahead.capacity());
    }

    fn lost(&self, reason: SuspendReason) -> Ending {
        self.attachment.tell(ConnectionInput::Ended(reason));
        Ending::Lost
    }
}
