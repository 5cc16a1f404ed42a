//! A connection at rest, whatever its transport: its socket, and what is left of it without a task.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;

use super::metered::{Metered, Written};
use super::{Socket, SocketAtRest};
use crate::client::{Attachment, Context};
use crate::rest::{Began, Pace};
use crate::session::{
    AtRest, Delivered, Heard, Link, LinkAtRest, Remains, SessionCell, SessionOutbox, Sessions, Share,
    Transport,
};
use crate::trace::Receipts;

/// What is read at a time: an answer to a ping, or the beginning of what its task will read.
const READ_BYTES: usize = 512;

/// The most shares that one connection takes at once, before it gets a task that lets others have their turn.
const SHARES_AT_ONCE: usize = 4;

/// The most memory that a thread keeps for what it sends.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// What is being sent. Nothing is kept in it.
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// What was read last, and is looked at. Cleared for each answer to a ping, it would cost more than to read the answer.
    static IN: RefCell<[u8; READ_BYTES]> = const { RefCell::new([0; READ_BYTES]) };
}

/// What a transport does while its connection has no task. All but [`Rests::wake`] is done with the session's lock, and blocks on nothing.
pub(super) trait Rests: Send + 'static {
    /// As its task has it.
    type Socket: Socket;
    const TRANSPORT: Transport;

    fn dialect(&self) -> DialectName;

    /// Whether what comes may be read now. Otherwise its task reads it, later.
    fn may_read(&self, _session: &SessionCell, _now: Timestamp) -> bool {
        true
    }

    /// Its client has sent this.
    fn heard(&mut self, context: &Context, session: &SessionCell, bytes: &[u8], now: Timestamp) -> Heard;

    /// Whether its peer has shown that it is alive since the last ping, as far as the kernel knows.
    fn is_alive(&self, socket: &RestingSocketOf<Self>) -> bool;

    /// Makes a ping. `sent` is the last seq that anything was sent under. Returns the ping's.
    fn ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64;

    /// Whether what there is to send is sent at rest. Otherwise that is for its task.
    fn may_send(&self) -> bool;

    /// Takes a share of what there is to send.
    fn take(&mut self, session: &SessionCell, outbox: &mut SessionOutbox, out: &mut Vec<u8>) -> Share;

    /// What its task does, from its beginning. No lock is held.
    fn wake(
        self,
        awake: Awake<Self::Socket>,
        remains: Remains,
    ) -> impl Future<Output: Send + 'static> + Send + 'static;
}

/// The socket of a connection with such a transport.
pub(super) type RestingSocketOf<T> = RestingSocket<<<T as Rests>::Socket as Socket>::AtRest>;

/// What all transports have of a connection, when it goes to rest and when it wakes.
pub(super) struct Awake<S> {
    pub(super) socket: S,
    pub(super) written: Written,
    pub(super) attachment: Attachment,
    pub(super) pace: Pace,
}

impl<S: Socket> Awake<S> {
    pub(super) fn new(socket: Metered<S>, attachment: Attachment, pace: Pace) -> Self {
        let written = socket.written();
        Self { socket: socket.into_inner(), written, attachment, pace }
    }

    /// Apart again.
    pub(super) fn into_parts(self) -> (Metered<S>, Attachment, Pace) {
        let Self { socket, written, attachment, pace } = self;
        let (link, context) = (Arc::clone(&attachment.link), Arc::clone(&attachment.context));
        (Metered::woken(socket, link, context, written), attachment, pace)
    }
}

/// A connection goes to rest; its task ends.
pub(super) fn rest<T: Rests>(awake: Awake<T::Socket>, transport: T) {
    let Awake { socket, written, attachment, pace } = awake;
    let socket = match socket.rest() {
        Ok(socket) => socket,
        // Its session is told as with any other that fails.
        Err(error) => return attachment.given_up(&error),
    };
    let (session, context) = (attachment.session.clone(), Arc::clone(&attachment.context));
    let since = Began::at(context.timeouts.clock().now());
    context.metrics.connections.rests(T::TRANSPORT.into());
    let link = attachment.rest();
    let socket =
        RestingSocket { socket, is_polled: false, written, pace, since, link: link.at_rest(), context };
    Sessions::rest(&session, link, Box::new(Resting { socket, transport }));
}

/// The socket of a connection without a task.
pub(super) struct RestingSocket<S> {
    socket: S,
    /// Somebody looks whether there is anything to read.
    is_polled: bool,
    written: Written,
    pace: Pace,
    since: Began,
    link: LinkAtRest,
    context: Arc<Context>,
}

impl<S: SocketAtRest> RestingSocket<S> {
    /// Whether the peer's machine has acknowledged the last ping, as far as the kernel knows.
    pub(super) fn has_ping_arrived(&self) -> bool {
        self.socket
            .unacknowledged()
            .is_ok_and(|unacknowledged| self.written.has_ping_arrived(unacknowledged.bytes))
    }

    /// Returns what the kernel did not take. If the connection has failed, that is all; its task will find out.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        let taken = loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                taken => break taken.unwrap_or(0),
            }
        };
        self.written.note_sent(taken);
        if taken == bytes.len() { Ok(()) } else { Err(bytes[taken..].to_vec()) }
    }
}

/// A connection that has no task. In a box of its own while it is at rest.
struct Resting<T: Rests> {
    socket: RestingSocketOf<T>,
    transport: T,
}

impl<T: Rests> Resting<T> {
    fn take_and_send(
        &mut self,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> Delivered {
        let mut receipts = Receipts::default();
        for _ in 0..SHARES_AT_ONCE {
            out.clear();
            let share = self.transport.take(session, outbox, out);
            self.socket.context.metrics.channels.delivered(share.messages, share.gaps);
            receipts.add(share.receipts);
            if !out.is_empty() {
                if let Err(unwritten) = self.socket.send(out) {
                    return Delivered::InPart(Remains { unwritten, receipts, ..Remains::default() });
                }
                receipts.written();
            }
            // Of what was taken, something may be for its task.
            if !self.transport.may_send() {
                break;
            }
            if !share.backlog.more {
                return if share.needs_acknowledgement {
                    Delivered::NeedsAcknowledgement
                } else {
                    Delivered::All
                };
            }
        }
        Delivered::InPart(Remains { receipts, ..Remains::default() })
    }
}

impl<T: Rests> AtRest for Resting<T> {
    fn link(&self) -> &LinkAtRest {
        &self.socket.link
    }

    fn link_mut(&mut self) -> &mut LinkAtRest {
        &mut self.socket.link
    }

    fn sessions(&self) -> &Arc<Sessions> {
        &self.socket.context.sessions
    }

    fn begin(&mut self, session: &SessionCell) -> io::Result<()> {
        let RestingSocket { socket, is_polled, pace, context, .. } = &mut self.socket;
        let rest = context.rest.as_ref().ok_or(ErrorKind::Unsupported)?;
        socket.add_to(&rest.poller, session.reference().number()).inspect_err(|_| pace.failed())?;
        *is_polled = true;
        Ok(())
    }

    fn is_alive(&self) -> bool {
        self.socket.socket.holds_bytes() || self.transport.is_alive(&self.socket)
    }

    fn read(&mut self, session: &SessionCell, now: Timestamp) -> Heard {
        if !self.transport.may_read(session, now) {
            return Heard::Later;
        }
        IN.with_borrow_mut(|buffer| match self.socket.socket.read(buffer) {
            // Nothing has begun that this could be the end of.
            Ok(0) => Heard::Lost(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.transport.heard(&self.socket.context, session, &buffer[..count], now),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Heard::Nothing
            }
            Err(error) => Heard::Lost(error),
        })
    }

    fn write_ping(&mut self, sent: u64) -> Result<u64, Remains> {
        OUT.with_borrow_mut(|out| {
            out.clear();
            let seq = self.transport.ping(sent, out);
            match self.socket.send(out) {
                Ok(()) => {
                    self.socket.written.ping_sent();
                    Ok(seq)
                }
                Err(unwritten) => Err(Remains { unwritten, ping: Some(seq), ..Remains::default() }),
            }
        })
    }

    fn deliver(&mut self, session: &SessionCell, outbox: &mut SessionOutbox) -> Delivered {
        if !self.transport.may_send() {
            return Delivered::InPart(Remains::default());
        }
        OUT.with_borrow_mut(|out| {
            let delivered = self.take_and_send(session, outbox, out);
            out.clear();
            out.shrink_to(KEPT_BYTES);
            delivered
        })
    }

    fn wake(self: Box<Self>, session: &SessionCell, link: Arc<Link>, mut remains: Remains) {
        let Self { socket, transport } = *self;
        let RestingSocket { mut socket, is_polled, written, mut pace, since, context, .. } = socket;
        context.metrics.connections.woke(T::TRANSPORT.into());
        let Some(rest) = &context.rest else { return };
        if is_polled {
            socket.remove_from(&rest.poller, session.reference().number());
            pace.woke(since.rested(context.timeouts.clock().now()), rest.after);
        } else {
            // It was to rest, and could not.
            pace.spoke(rest.after);
        }
        let (runtime, session) = (rest.runtime.clone(), context.sessions.hold(session));
        let attachment = Attachment::woken(session, link, context, T::TRANSPORT, transport.dialect());
        if let Some(error) = remains.lost.take() {
            return attachment.failed(&error);
        }
        let _in_runtime = runtime.enter();
        match T::Socket::wake(socket) {
            Ok(socket) => {
                runtime.spawn(transport.wake(Awake { socket, written, attachment, pace }, remains));
            }
            Err(error) => attachment.given_up(&error),
        }
    }
}

impl<T: Rests> fmt::Debug for Resting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resting").field("socket", &self.socket.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) fn size_of_resting<T: Rests>() -> usize {
    size_of::<Resting<T>>()
}
