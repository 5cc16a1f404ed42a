//! A WebSocket at rest: what of it is left without a task.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::dialect::pong_seq;
use encke_core::frame_walk::lone_pong;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use socket2::SockRef;

use super::connection::{Connection, Quiet, pong};
use super::frame::{Frames, OutgoingFrames, write_ping};
use super::inbox::Inbox;
use super::spoken::Spoken;
use super::{Holder, run, websocket};
use crate::client::{Attachment, Context};
use crate::rest::{Key, Pace};
use crate::session::{
    AtRest, Delivered, Heard, Link, Remains, SessionCell, SessionOutbox, Sessions, Transport, take_share,
};
use crate::transport::Socket;
use crate::transport::metered::{Metered, Written};

/// What is read at a time: an answer to a ping, or the beginning of what its task will read.
const READ_BYTES: usize = 512;

/// The most shares that one connection takes at once, before it gets a task that lets others have their turn.
const SHARES_AT_ONCE: usize = 4;

/// The most memory that a thread keeps for what it sends.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// What is being sent. Nothing is kept in it.
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A WebSocket that has no task. In a box of its own while it is at rest.
struct Resting<S, D, H> {
    socket: TcpStream,
    /// Once its socket is looked at.
    key: Option<Key>,
    written: Written,
    until_acknowledged: bool,
    pace: Pace,
    since: Timestamp,
    link: Arc<Link>,
    context: Arc<Context>,
    dialect: D,
    holder: H,
    becomes: PhantomData<fn() -> S>,
}

/// A connection goes to rest; its task ends.
pub(super) fn rest<S: Socket, D: Spoken, H: Holder<S>>(connection: Connection<S, D>, holder: H) {
    let Quiet { socket, attachment, dialect, written, until_acknowledged, pace } = connection.into_quiet();
    let socket = match socket.rest() {
        Ok(socket) => socket,
        // Its session is told as with any other that fails.
        Err(error) => return attachment.failed(&error),
    };
    let (session, context) = (Arc::clone(&attachment.session), Arc::clone(&attachment.context));
    let resting = Resting {
        socket,
        key: None,
        written,
        until_acknowledged,
        pace,
        since: context.timeouts.clock().now(),
        link: Arc::clone(&attachment.link),
        context,
        dialect,
        holder,
        becomes: PhantomData::<fn() -> S>,
    };
    resting.context.metrics.connections.rests();
    attachment.rest();
    Sessions::rest(&session, Box::new(resting));
}

impl<S: Socket, D: Spoken, H: Holder<S>> Resting<S, D, H> {
    /// Returns what the kernel did not take. If the connection has failed, that is all; its task will find out.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        let taken = loop {
            match (&self.socket).write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                taken => break taken.unwrap_or(0),
            }
        };
        self.written.note_sent(taken);
        if taken == bytes.len() { Ok(()) } else { Err(bytes[taken..].to_vec()) }
    }

    fn take_and_send(&mut self, outbox: &mut SessionOutbox, out: &mut Vec<u8>) -> Delivered {
        for _ in 0..SHARES_AT_ONCE {
            out.clear();
            let frames = Frames(out);
            let share = take_share(outbox, &mut OutgoingFrames { dialect: &mut self.dialect, frames });
            self.context.metrics.channels.delivered(share.messages, share.gaps);
            if !out.is_empty()
                && let Err(unwritten) = self.send(out)
            {
                return Delivered::InPart(Remains { unwritten, ..Remains::default() });
            }
            if self.dialect.has_kept() {
                return Delivered::InPart(Remains::default());
            }
            self.until_acknowledged = share.backlog.until_acknowledged;
            if !share.backlog.more {
                return if share.needs_acknowledgement {
                    Delivered::NeedsAcknowledgement
                } else {
                    Delivered::All
                };
            }
        }
        Delivered::InPart(Remains::default())
    }
}

impl<S: Socket, D: Spoken, H: Holder<S>> AtRest for Resting<S, D, H> {
    fn link(&self) -> &Arc<Link> {
        &self.link
    }

    fn sessions(&self) -> &Arc<Sessions> {
        &self.context.sessions
    }

    fn key(&self) -> Option<Key> {
        self.key
    }

    fn begin(&mut self, session: &Arc<SessionCell>) -> io::Result<()> {
        let rest = self.context.rest.as_ref().ok_or(ErrorKind::Unsupported)?;
        self.key = Some(rest.poller.add(&self.socket, Arc::clone(session))?);
        Ok(())
    }

    fn holds_bytes(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        matches!(SockRef::from(&self.socket).peek(&mut byte), Ok(1..))
    }

    fn read(&mut self, session: &SessionCell, now: Timestamp) -> Heard {
        // Frames that come too fast are read later, which takes a task.
        if session.frames.next_at() > now {
            return Heard::Other(Remains::default());
        }
        let mut buffer = [0; READ_BYTES];
        let read = match (&self.socket).read(&mut buffer) {
            Ok(count) => &buffer[..count],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Heard::Nothing;
            }
            Err(error) => return Heard::lost(error),
        };
        // It stands between two messages, and so without a Close.
        if read.is_empty() {
            return Heard::lost(ErrorKind::UnexpectedEof.into());
        }
        self.link.received(now);
        match lone_pong::<8>(read).and_then(|payload| pong_seq(&payload)) {
            Some(seq) => {
                session.frames.count(1, self.context.settings.frames_per_second, now);
                Heard::Pong { input: pong(&self.dialect, seq), makes_room: self.until_acknowledged }
            }
            None => Heard::Other(Remains { read: read.to_vec(), ..Remains::default() }),
        }
    }

    fn write_ping(&mut self, sent: u64) -> Result<u64, Remains> {
        let seq = self.dialect.told(sent);
        OUT.with_borrow_mut(|out| {
            out.clear();
            write_ping(&mut self.dialect, seq, &mut Frames(out));
            match self.send(out) {
                Ok(()) => {
                    self.written.ping_sent();
                    Ok(seq)
                }
                Err(unwritten) => Err(Remains { unwritten, ping: Some(seq), ..Remains::default() }),
            }
        })
    }

    fn deliver(&mut self, outbox: &mut SessionOutbox) -> Delivered {
        if !self.dialect.sends_at_rest() {
            return Delivered::InPart(Remains::default());
        }
        OUT.with_borrow_mut(|out| {
            let delivered = self.take_and_send(outbox, out);
            out.clear();
            out.shrink_to(KEPT_BYTES);
            delivered
        })
    }

    fn wake(self: Box<Self>, session: Arc<SessionCell>, remains: Remains) {
        let Self { socket, key, written, mut pace, since, link, context, dialect, holder, .. } = *self;
        let Remains { read, unwritten, ping, lost } = remains;
        context.metrics.connections.woke();
        let Some(rest) = &context.rest else { return };
        match key {
            Some(key) => {
                rest.poller.remove(key, &socket);
                pace.woke(context.timeouts.clock().now().since(since), rest.after);
            }
            // It was to rest, and could not.
            None => pace.spoke(rest.after),
        }
        let (runtime, transport) = (rest.runtime.clone(), Transport::WebSocket);
        let attachment = Attachment::woken(session, link, Arc::clone(&context), transport, D::NAME);
        if let Some(error) = lost {
            return attachment.failed(&error);
        }
        let opening = Box::pin(async move {
            let socket = match S::wake(socket) {
                Ok(socket) => socket,
                Err(error) => {
                    attachment.failed(&error);
                    return None;
                }
            };
            let socket = Metered::woken(socket, Arc::clone(&attachment.link), Arc::clone(&context), written);
            let inbox = Inbox::new(socket, Arc::clone(&attachment.session), read);
            let socket = websocket(inbox, Vec::new(), &context.settings).await;
            Some(Connection::woken(socket, attachment, dialect, (unwritten, ping), pace))
        });
        // Not an `async` block: it would have room for the connection twice.
        runtime.spawn(run(opening, holder).then(|anew| {
            OptionFuture::from(anew.map(|(socket, text, holder)| holder.open_anew(socket, text)))
        }));
    }
}

impl<S, D, H> fmt::Debug for Resting<S, D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resting")
            .field("socket", &self.socket)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
