use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::Dialect;
use encke_core::dialect::json::Json;
use encke_core::session::ConnectionInput;

use super::event::{Bare, Events, farewell, heartbeat};
use super::positions::Positions;
use crate::client::{Attachment, hello, unsubscribed};
use crate::rest::Pace;
use crate::session::{Backlog, Notes, Subscribed};
use crate::transport::Socket;
use crate::transport::at_rest::Awake;
use crate::transport::end_of_stream::{end_stream, poll_read_some};
use crate::transport::following::{Following, Refused};
use crate::transport::metered::{Metered, PingFate};
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::until_rest::UntilRest;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

/// One stream of events of a session, owned by its task.
pub(super) struct Connection<S> {
    pub(super) socket: Metered<S>,
    pub(super) attachment: Attachment,
    pub(super) token: String,
    pub(super) out: Unwritten,
    /// A heartbeat is in `out`.
    pub(super) heartbeat: bool,
    /// What the session has for this connection.
    pub(super) backlog: Backlog,
    /// How far the client is in the channels of its URL.
    pub(super) positions: Positions,
    /// Until the session follows all channels that the stream asked for. Only then is it greeted: with the hello, its client gets to
    /// know where it is in each of them.
    pub(super) following: Option<Box<Following>>,
    /// The session is the one that the client asked for.
    pub(super) recovered: bool,
    pub(super) hold: WriteHold,
    pub(super) until_rest: UntilRest,
    pub(super) pace: Pace,
    /// Its client has said something, though there is nothing that it could say, since that was looked at last.
    pub(super) spoke: bool,
}

/// Why a stream's loop has stopped.
pub(super) enum Paused {
    Ended(Ending),
    /// It may go to rest.
    Rest,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// We end it, and the last event says why.
    Close(CloseCode),
    /// The peer is gone.
    Lost,
}

impl<S: Socket> Connection<S> {
    /// A stream whose client was greeted, and nothing else.
    pub(super) fn begun(socket: Metered<S>, attachment: Attachment, positions: Positions) -> Self {
        Self {
            socket,
            token: attachment.session.resume_token().expose().to_string(),
            attachment,
            out: Unwritten::default(),
            heartbeat: false,
            backlog: Backlog { more: true, until_acknowledged: false },
            positions,
            following: None,
            recovered: false,
            hold: WriteHold::default(),
            until_rest: UntilRest::default(),
            pace: Pace::default(),
            spoke: false,
        }
    }

    /// A stream that has been at rest, what the kernel did not take there, and whether that ends in a heartbeat.
    pub(super) fn woken(awake: Awake<S>, positions: Positions, (out, heartbeat): (Unwritten, bool)) -> Self {
        let (socket, attachment, pace) = awake.into_parts();
        Self { out, heartbeat, pace, ..Self::begun(socket, attachment, positions) }
    }

    /// Gives up all that a stream at rest has no use for.
    pub(super) fn into_quiet(self) -> (Awake<S>, Positions) {
        let Self { socket, attachment, positions, pace, .. } = self;
        (Awake::new(socket, attachment, pace), positions)
    }

    /// Sends events until something ends the stream, or it may go to rest.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| match poll_steps(|| self.poll_step(context)) {
            Poll::Pending if self.is_quiet() => self.poll_rest(),
            polled => polled.map(Paused::Ended),
        })
        .await
    }

    /// Whether there is nothing but what can be done at rest: what was to be sent is in the kernel.
    fn is_quiet(&self) -> bool {
        !self.backlog.more
            && self.out.is_empty()
            && !self.heartbeat
            && self.following.is_none()
            && !self.hold.is_held()
            && self.socket.can_rest()
    }

    /// Ready when it has been silent for long enough, and still is.
    fn poll_rest(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, until_rest, pace, spoke, .. } = self;
        until_rest.poll(socket, attachment, pace, spoke).map(|()| Paused::Rest)
    }

    /// Notes, then writes, then a check whether the client is still there.
    fn poll_step(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        let notes = self.attachment.link.take_notes(context);
        self.until_rest.hears(notes);
        if let Some(code) = notes.close_code() {
            return Err(Ending::Close(code));
        }
        self.backlog.more |= notes.contains(Notes::READ);
        if notes.contains(Notes::PING) {
            heartbeat(&mut self.out.bytes);
            self.heartbeat = true;
        }
        self.poll_following(context);
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if notes.contains(Notes::PROBE) {
            self.probe()?;
            // It may have left a note to close.
            return Ok(Poll::Ready(()));
        }
        if self.may_take_more() {
            let Self { out, token, positions, .. } = self;
            let mut events = Events { out: &mut out.bytes, token, positions };
            let (backlog, receipts) = self.attachment.take_outgoing(&mut events);
            self.backlog = backlog;
            self.out.receipts.add(receipts);
            if self.poll_flush(context)?.is_pending() {
                return Ok(Poll::Pending);
            }
        }
        match poll_read_some(&mut self.socket, context) {
            Poll::Pending if self.may_take_more() => {
                // Others first.
                context.waker().wake_by_ref();
                Ok(Poll::Pending)
            }
            Poll::Pending => Ok(Poll::Pending),
            // There is nothing that it could say.
            Poll::Ready(Ok(false)) => {
                self.spoke = true;
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Ok(true) | Err(_)) => Err(self.lost(SuspendReason::ConnectionLost)),
        }
    }

    /// The hello comes first.
    fn may_take_more(&self) -> bool {
        self.backlog.more && self.following.is_none()
    }

    fn poll_following(&mut self, context: &mut task::Context<'_>) {
        let Self { following, attachment, positions, recovered, .. } = self;
        let Some(channels) = following else { return };
        let followed = |subscribed: &Subscribed, begin| positions.follow(subscribed, begin, *recovered);
        if let Poll::Ready(refused) = channels.poll(context, attachment, followed) {
            self.following = None;
            self.greet(&refused);
            // What it follows by now may have something to read.
            self.backlog.more = true;
        }
    }

    fn greet(&mut self, refused: &[Refused]) {
        let exposed = self.attachment.session.resume_token().expose();
        let hello = hello(&self.attachment, &exposed, self.recovered);
        let seq = self.attachment.link.begins_after();
        let Self { out, token, positions, .. } = self;
        let mut events = Events { out: &mut out.bytes, token, positions };
        events.numbered(seq, &hello);
        for (channel, reason) in refused {
            Json::default().notify(&unsubscribed(channel, reason), &mut Bare(&mut out.bytes));
        }
    }

    fn poll_flush(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        if !self.out.is_empty() {
            match self.out.poll_write(context, &mut self.socket) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.attachment.failed(&error);
                    return Err(self.lost(SuspendReason::ConnectionLost));
                }
                Poll::Pending => {
                    return match self.hold.poll(context, &self.socket, &self.attachment) {
                        Ok(()) => Ok(Poll::Pending),
                        Err(TooSlow) => Err(self.too_slow()),
                    };
                }
            }
        }
        self.hold.release(&self.attachment);
        if std::mem::take(&mut self.heartbeat) {
            self.socket.ping_sent();
            let seq = self.attachment.session.sent();
            self.attachment.tell(ConnectionInput::PingSent { seq });
        }
        Ok(Poll::Ready(()))
    }

    /// The client cannot answer a heartbeat; its machine can.
    fn probe(&mut self) -> Result<(), Ending> {
        let input = match self.socket.ping_fate() {
            Ok(PingFate::Delayed) => ConnectionInput::PingDelayed,
            Ok(PingFate::Lost | PingFate::Answered) => ConnectionInput::Probed,
            Ok(PingFate::Arrived) => {
                self.socket.note_received();
                ConnectionInput::Probed
            }
            Err(TooSlow) => return Err(self.too_slow()),
        };
        self.attachment.tell(input);
        Ok(())
    }

    fn too_slow(&self) -> Ending {
        self.lost(SuspendReason::SlowConsumer)
    }

    fn lost(&self, reason: SuspendReason) -> Ending {
        self.attachment.tell(ConnectionInput::Ended(reason));
        Ending::Lost
    }

    /// There is no Close frame here: the last event says why, and when to come back.
    pub(super) async fn say_goodbye(mut self, code: CloseCode) {
        let context = Arc::clone(&self.attachment.context);
        farewell(&mut self.out.bytes, code, &context.entropy);
        let Self { mut socket, mut out, attachment, .. } = self;
        // The session has released this connection already; its permit may be another's.
        drop(attachment);
        let timeout = std::pin::pin!(context.closing_is_over());
        let goodbye = std::pin::pin!(async {
            if poll_fn(|context| out.poll_write(context, &mut socket)).await.is_ok() {
                let _ = end_stream(socket).await;
            }
        });
        futures_util::future::select(timeout, goodbye).await;
    }
}
