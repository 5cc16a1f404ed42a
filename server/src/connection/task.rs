//! The driver for active connections: a task that owns the socket.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::mem;
use std::task::{self, Poll};

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;
use tokio::io::ReadBuf;

use super::active::{Connection, Parkable};
use super::closing::close;
use super::inbox::BYTES_PER_POLL;
use super::parked::park;
use super::progress::{PingFate, PingProgress, TooSlow};
use super::protocol::{End, Ending, Protocol};
use super::socket::Socket;
use crate::client::Attachment;
use crate::session::{Backlog, DeliveryBatch, Signals};

thread_local! {
    /// Scratch buffer for input. No data is kept between uses.
    static INPUT: RefCell<Box<[u8]>> = RefCell::new(vec![0; BYTES_PER_POLL as usize].into());
}

/// Maximum number of bytes of unsent responses before another command is handled.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Why a connection's loop has stopped.
enum Paused {
    Ended(Ending),
    /// The connection may be parked.
    Park,
}

type StepResult<T = ()> = Result<T, Ending>;

/// Runs a connection until it ends or is parked. If its socket is to be used further, returns the connection.
///
/// A task reserves space for every value held across an await, and for arguments even after they are moved
/// elsewhere. For this reason, the code that ends the connection is boxed.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would reserve space for its argument twice")]
pub(crate) fn drive<S: Socket, P: Parkable<S>>(
    mut connection: Connection<S, P>,
) -> impl Future<Output = Option<Connection<S, P>>> + Send {
    async move {
        match connection.run().await {
            Paused::Park => park(connection),
            Paused::Ended(Ending::Released) => return Some(connection),
            Paused::Ended(Ending::Lost) => {}
            Paused::Ended(ending) => close(connection, ending).await,
        }
        None
    }
}

impl<S: Socket, P: Protocol<S>> Connection<S, P> {
    /// Runs until the connection ends or may be parked.
    async fn run(&mut self) -> Paused {
        poll_fn(|context| {
            self.inbox.refill(P::INPUTS_PER_POLL);
            loop {
                match self.poll_step(context) {
                    Ok(Poll::Ready(())) => {}
                    Ok(Poll::Pending) if self.is_idle() => return self.poll_park(),
                    Ok(Poll::Pending) => return Poll::Pending,
                    Err(ending) => return Poll::Ready(Paused::Ended(ending)),
                }
            }
        })
        .await
    }

    /// Whether the connection may be parked: all input is handled, the kernel has accepted all output, and
    /// everything that remains can be done without a task.
    fn is_idle(&self) -> bool {
        let has_backlog = self.backlog.has_more && self.protocol.can_send();
        !has_backlog
            && self.inbox.is_empty()
            && self.socket.socket.can_park()
            && !self.ping_progress.is_delayed()
            && self.out.is_empty()
            && self.ping.is_none()
            && !self.is_due
            && !self.hold.is_held()
            && self.subscriptions.is_none()
            && !P::has_pending(&self.commands)
            && self.deferred_end.is_none()
    }

    /// Ready when the client has been silent for long enough, and still is.
    fn poll_park(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, park_timer, backoff, has_input, .. } = self;
        // Check the kernel, too: it may hold input that the runtime has not noticed yet. If so, that input wakes
        // the task.
        if park_timer.has_delay_elapsed(attachment, backoff, has_input) && socket.socket.is_silent() {
            Poll::Ready(Paused::Park)
        } else {
            Poll::Pending
        }
    }

    /// Handles signals, then writes, then reads once.
    fn poll_step(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        let signals = self.attachment.mailbox.take_signals(context);
        if signals != Signals::NONE {
            self.handle_signals(signals)?;
        }
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if signals.contains(Signals::PROBE) {
            self.probe()?;
            // The probe may have caused a close signal.
            return Ok(Poll::Ready(()));
        }
        if self.subscriptions.is_some() {
            self.poll_subscriptions(context);
        }
        // Input may be a disconnect, after which the client gets its messages on its next connection.
        let receives_first =
            self.backlog.has_more && self.protocol.receives_first() && self.has_readable_bytes();
        if self.subscriptions.is_none() && !receives_first {
            if self.backlog.has_more && self.protocol.can_send() && !self.take_batch() {
                // The session has released the connection: a signal says why.
                return Ok(Poll::Ready(()));
            }
            // Answer last, so that an immediate answer includes the messages.
            if self.is_due || self.protocol.has_answer() {
                self.is_due = false;
                let (protocol, mut link) = self.split();
                protocol.answer(&mut link);
                if self.is_due {
                    // A signal takes precedence.
                    return Ok(Poll::Ready(()));
                }
            }
        }
        if !self.out.is_empty() && self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let (protocol, mut link) = self.split();
        let input = match protocol.poll_commands(context, &mut link) {
            Some(Poll::Ready(())) => return Ok(Poll::Ready(())),
            Some(Poll::Pending) if self.deferred_end.is_some() || !P::can_receive(&self.commands) => {
                Poll::Pending
            }
            Some(Poll::Pending) => self.poll_input(context)?,
            None => match self.deferred_end.take() {
                Some(end) => return Err(self.end(end)),
                None => self.poll_input(context)?,
            },
        };
        let must_wait_for_input = receives_first && self.has_readable_bytes();
        if input.is_pending()
            && self.backlog.has_more
            && self.protocol.can_send()
            && self.subscriptions.is_none()
            && !must_wait_for_input
        {
            // Let other tasks run first.
            context.waker().wake_by_ref();
        }
        Ok(input)
    }

    fn handle_signals(&mut self, signals: Signals) -> StepResult {
        self.park_timer.note_signals(signals);
        self.is_due |= signals.contains(Signals::ANSWER);
        // An answer includes the gaps that the session has held until now.
        self.backlog.has_more |= signals.contains(Signals::READ) || signals.contains(Signals::ANSWER);
        if let Some(code) = signals.close_code() {
            let (protocol, mut link) = self.split();
            return protocol.released(code, &mut link);
        }
        if signals.contains(Signals::SUPERSEDED) {
            let (protocol, mut link) = self.split();
            protocol.superseded(&mut link);
        }
        if signals.contains(Signals::PING) {
            let sent = self.attachment.session.sent();
            self.ping = Some(self.protocol.write_ping(sent, &mut self.out.bytes));
        }
        Ok(())
    }

    fn poll_subscriptions(&mut self, context: &mut task::Context<'_>) {
        let Self { subscriptions, attachment, protocol, recovered, .. } = self;
        let recovered = *recovered;
        let Some(channels) = subscriptions else { return };
        let on_subscribed =
            |requested: &_, outcome: &_, begin| protocol.subscribed(requested, outcome, begin);
        let Poll::Ready(refused) = channels.poll(context, attachment, on_subscribed) else { return };
        self.subscriptions = None;
        // The new subscriptions may have messages to read.
        self.backlog.has_more = true;
        let (protocol, mut link) = self.split();
        protocol.greet(&refused, recovered, &mut link);
    }

    /// Takes a batch of messages. Returns whether the session is attached to this connection.
    fn take_batch(&mut self) -> bool {
        let Self { attachment, protocol, out, .. } = self;
        let (Attachment { session, mailbox, services, .. }, before) = (&*attachment, out.bytes.len());
        let take = |outbox: &mut _| protocol.take_batch(services, session, outbox, &mut out.bytes);
        let batch = services.sessions.lifecycle.take_outgoing(session, mailbox, take);
        match batch {
            Some(DeliveryBatch { backlog, published_at, .. }) => {
                self.backlog = backlog;
                self.out.add_sample(published_at);
                true
            }
            None => {
                self.backlog = Backlog::default();
                self.out.bytes.truncate(before);
                false
            }
        }
    }

    /// Writes all pending output. Pending while the peer does not read; if that lasts for `write_timeout`,
    /// the connection ends.
    fn poll_flush(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        let has_output = !self.out.is_empty();
        if has_output {
            match self.socket.poll_write(context, &mut self.out) {
                Poll::Ready(Ok(published_at)) => self.attachment.delivered(published_at),
                Poll::Ready(Err(error)) => {
                    self.attachment.log_failure(&error);
                    return Err(self.end((SuspendReason::ConnectionLost, Ending::Lost)));
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
        if let Some(seq) = self.ping.take() {
            self.socket.counters.ping_sent();
            self.ping_progress = PingProgress::default();
            self.attachment.notify_session(ConnectionInput::PingSent { seq });
        }
        if has_output {
            let (protocol, mut link) = self.split();
            protocol.written(&mut link)?;
        }
        Ok(Poll::Ready(()))
    }

    /// Checks an overdue ping.
    fn probe(&mut self) -> StepResult {
        if self.inbox.is_paused() {
            self.attachment.note_received();
        }
        let input = match self.ping_progress.query(&self.socket, &self.attachment) {
            Ok(PingFate::Delayed) => ConnectionInput::PingDelayed,
            Ok(fate) => {
                if fate == PingFate::Arrived && P::PINGS_ARE_ACKNOWLEDGED {
                    self.attachment.note_received();
                }
                ConnectionInput::Probed
            }
            Err(TooSlow) => return Err(self.too_slow()),
        };
        self.attachment.notify_session(input);
        Ok(())
    }

    /// Whether the client has sent bytes that may be handled now.
    fn has_readable_bytes(&self) -> bool {
        !self.inbox.is_paused() && (self.inbox.is_ready() || self.socket.socket.has_unread_bytes())
    }

    /// Handles input that was read before, or reads more.
    fn poll_input(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        let next_at = self.protocol.next_input_at(&self.attachment.session);
        if self.inbox.poll_rate(context, next_at, &self.attachment).is_pending() {
            return Ok(Poll::Pending);
        }
        if self.inbox.is_used_up() {
            // Let other tasks run first.
            context.waker().wake_by_ref();
            return Ok(Poll::Pending);
        }
        let ended = if self.inbox.is_ready() {
            self.receive(&mut [])
        } else {
            let room = self.inbox.room(P::MAX_UNHANDLED_BYTES);
            if room == 0 {
                return Ok(Poll::Pending);
            }
            let received = INPUT.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(&mut scratch[..room]);
                match self.socket.poll_read(context, &mut buffer, &self.attachment) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                        let read = buffer.filled_mut();
                        self.inbox.bytes_left -= u32::try_from(read.len()).expect("the buffer is limited");
                        Poll::Ready(self.receive(read))
                    }
                    Poll::Ready(result) => {
                        if let Err(error) = result {
                            self.attachment.log_failure(&error);
                        }
                        Poll::Ready(Some((SuspendReason::ConnectionLost, Ending::Lost)))
                    }
                }
            });
            let Poll::Ready(ended) = received else { return Ok(Poll::Pending) };
            ended
        };
        match ended {
            None => Ok(Poll::Ready(())),
            Some(end) if P::has_pending(&self.commands) => {
                self.deferred_end = Some(end);
                Ok(Poll::Ready(()))
            }
            Some(end) => Err(self.end(end)),
        }
    }

    /// Handles the input in the inbox and then `read`.
    fn receive(&mut self, read: &mut [u8]) -> Option<End> {
        let (mut inbox, mut is_first) = (mem::take(&mut self.inbox), true);
        let before = self.out.bytes.len();
        let end = inbox.handle(read, |bytes, fragments| {
            let is_first = mem::take(&mut is_first);
            if !P::can_receive(&self.commands) || !is_first && self.has_precedence() {
                return None;
            }
            // Send the responses before more commands add to them.
            if self.out.bytes.len() >= MAX_RESPONSE_BYTES {
                return None;
            }
            let (protocol, mut link) = self.split();
            Some(protocol.receive(bytes, fragments, &mut link))
        });
        // Output takes time, too: a small command may have a large response.
        inbox.use_up(self.out.bytes.len().saturating_sub(before));
        inbox.account(&self.attachment);
        self.inbox = inbox;
        end
    }

    /// Whether a signal or a message for the client takes precedence over further input.
    fn has_precedence(&self) -> bool {
        self.attachment.mailbox.has_signals() || self.backlog.has_more && self.protocol.can_send()
    }

    fn too_slow(&self) -> Ending {
        self.end((SuspendReason::SlowConsumer, P::TOO_SLOW))
    }

    /// Notifies the session before the closing handshake begins, because the client may reconnect before that
    /// handshake ends.
    fn end(&self, (reason, ending): End) -> Ending {
        self.attachment.notify_session(ConnectionInput::Ended(reason));
        ending
    }
}
