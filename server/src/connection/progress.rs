//! Detects peers that do not read, based on what their kernels have acknowledged. The kernel is queried only
//! when a deadline is due. The number of bytes that our kernel accepts says little, since it accepts them in
//! large pieces.

use std::future::Future;
use std::pin::Pin;
use std::task;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::ConnectionInput;
use encke_timeouts::Sleep;

use super::Socket;
use super::counted_socket::CountedSocket;
use crate::client::{Attachment, ClientSettings};

/// Granularity of the kernel's acknowledgement times, which follow its timer interrupt.
const ACK_TIME_GRANULARITY: Duration = Duration::from_millis(20);

/// How much a peer had acknowledged at a point in time.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    at: Timestamp,
    /// Number of acknowledged bytes, relative to an arbitrary starting point.
    acknowledged: u32,
}

/// The peer is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

impl Checkpoint {
    fn new(at: Timestamp, socket: &CountedSocket<impl Socket>) -> Self {
        Self { at, acknowledged: acknowledged(socket, socket.socket.unacknowledged().bytes) }
    }

    /// Moves to the next checkpoint once `write_timeout` has elapsed.
    ///
    /// # Errors
    /// [`TooSlow`] if the peer has neither acknowledged enough since the last checkpoint nor everything that
    /// was sent.
    fn advance(
        &mut self,
        now: Timestamp,
        socket: &CountedSocket<impl Socket>,
        settings: &ClientSettings,
    ) -> Result<(), TooSlow> {
        if now < self.at + settings.write_timeout {
            return Ok(());
        }
        let unacknowledged = socket.socket.unacknowledged().bytes;
        let acknowledged = acknowledged(socket, unacknowledged);
        let progress = acknowledged.wrapping_sub(self.acknowledged);
        if unacknowledged > 0 && u64::from(progress) < settings.min_progress() {
            return Err(TooSlow);
        }
        *self = Self { at: now, acknowledged };
        Ok(())
    }
}

/// Returns the number of acknowledged bytes, relative to an arbitrary starting point. It wraps around, so
/// only differences are meaningful.
#[expect(clippy::cast_possible_truncation, reason = "the kernel holds far less than 4 GiB")]
fn acknowledged(socket: &CountedSocket<impl Socket>, unacknowledged: u64) -> u32 {
    socket.counters.sent.wrapping_sub(unacknowledged as u32)
}

/// State of an overdue ping, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingFate {
    /// Bytes were received from the peer.
    Answered,
    /// The peer's kernel has acknowledged the ping, but no answer has arrived.
    Arrived,
    /// The ping is queued behind data that the peer is still receiving.
    Delayed,
    /// The ping is in flight, and the peer's kernel acknowledges nothing.
    Lost,
}

/// Progress of the peer while the last ping is queued behind data.
#[derive(Debug, Default)]
pub(super) struct PingProgress(Option<Box<Checkpoint>>);

impl PingProgress {
    /// Whether the last ping was found to be queued behind data.
    pub(super) fn is_delayed(&self) -> bool {
        self.0.is_some()
    }

    /// Queries the kernel about the last ping. The kernel may hold bytes that the runtime does not know of
    /// yet.
    pub(super) fn query(
        &mut self,
        socket: &CountedSocket<impl Socket>,
        attachment: &Attachment,
    ) -> Result<PingFate, TooSlow> {
        let services = &attachment.services;
        let pong_timeout = services.sessions.lifecycle.settings().pong_timeout;
        if socket.socket.has_unread_bytes() {
            attachment.note_received();
            return Ok(PingFate::Answered);
        }
        let unacknowledged = socket.socket.unacknowledged();
        if socket.counters.has_ping_arrived(unacknowledged.bytes) {
            return Ok(PingFate::Arrived);
        }
        if unacknowledged.in_flight && unacknowledged.silent_for + ACK_TIME_GRANULARITY >= pong_timeout {
            return Ok(PingFate::Lost);
        }
        // A peer whose buffers are full is slow, not dead. The checkpoint limits how slow it may be.
        let now = services.timeouts.clock().now();
        let checkpoint = self.0.get_or_insert_with(|| Box::new(Checkpoint::new(now, socket)));
        checkpoint.advance(now, socket, &services.settings)?;
        Ok(PingFate::Delayed)
    }
}

/// Whether a write is blocked because the kernel accepts no more bytes. While it is, nothing is read from the
/// peer, so that output does not pile up.
#[derive(Debug, Default)]
pub(super) struct WriteHold(Option<Box<StalledWrite>>);

#[derive(Debug)]
struct StalledWrite {
    /// Time of the next progress check.
    timeout: Sleep,
    checkpoint: Checkpoint,
}

impl WriteHold {
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Must be called when the kernel accepts no bytes. Wakes the task for the next progress check.
    ///
    /// # Errors
    /// [`TooSlow`] if the peer has read too little for too long.
    pub(super) fn poll(
        &mut self,
        context: &mut task::Context<'_>,
        socket: &CountedSocket<impl Socket>,
        attachment: &Attachment,
    ) -> Result<(), TooSlow> {
        let timeouts = &attachment.services.timeouts;
        let settings = &attachment.services.settings;
        let held = self.0.get_or_insert_with(|| {
            attachment.notify_session(ConnectionInput::WriteHeld);
            let checkpoint = Checkpoint::new(timeouts.clock().now(), socket);
            Box::new(StalledWrite {
                timeout: timeouts.sleep_until(checkpoint.at + settings.write_timeout),
                checkpoint,
            })
        });
        while Pin::new(&mut held.timeout).poll(context).is_ready() {
            held.checkpoint.advance(timeouts.clock().now(), socket, settings)?;
            held.timeout = timeouts.sleep_until(held.checkpoint.at + settings.write_timeout);
        }
        Ok(())
    }

    /// Must be called when the kernel has accepted everything.
    pub(super) fn release(&mut self, attachment: &Attachment) {
        if self.0.take().is_some() {
            attachment.notify_session(ConnectionInput::WriteResumed);
        }
    }
}
