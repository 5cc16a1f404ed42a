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

/// Number of checks in each `write_timeout`. A peer is noticed to be too slow at most one interval late.
const CHECKS: u32 = 4;

/// How much a peer had acknowledged at several points in time, oldest first.
#[derive(Clone, Copy, Debug)]
struct ReadProgress([Sample; CHECKS as usize]);

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Timestamp,
    /// Number of acknowledged bytes, relative to an arbitrary starting point.
    acknowledged: u32,
}

/// The peer is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl ReadProgress {
    fn new(at: Timestamp, socket: &CountedSocket<impl Socket>) -> Self {
        Self([Sample { at, acknowledged: acknowledged(socket, socket.socket.unacknowledged().bytes) }; _])
    }

    /// Time of the next check.
    fn next_at(&self, write_timeout: Duration) -> Timestamp {
        self.0[self.0.len() - 1].at + write_timeout / CHECKS
    }

    /// Checks the progress, if it is time.
    fn check(
        &mut self,
        now: Timestamp,
        socket: &CountedSocket<impl Socket>,
        settings: &ClientSettings,
    ) -> Result<(), TooSlow> {
        if now < self.next_at(settings.write_timeout) {
            return Ok(());
        }
        let unacknowledged = socket.socket.unacknowledged().bytes;
        let sample = Sample { at: now, acknowledged: acknowledged(socket, unacknowledged) };
        self.advance(sample, unacknowledged > 0, settings.write_timeout, settings.min_progress())
    }

    /// Adds a sample. `is_pending` is whether anything is unacknowledged.
    ///
    /// # Errors
    /// [`TooSlow`] if the peer has acknowledged less than `min` bytes within `write_timeout`, and not
    /// everything that was sent.
    fn advance(
        &mut self,
        sample: Sample,
        is_pending: bool,
        write_timeout: Duration,
        min: u64,
    ) -> Result<(), TooSlow> {
        if !is_pending {
            self.0 = [sample; _];
            return Ok(());
        }
        let before = self.0.iter().rev().find(|before| before.at + write_timeout <= sample.at);
        if let Some(before) = before
            && u64::from(sample.acknowledged.wrapping_sub(before.acknowledged)) < min
        {
            return Err(TooSlow);
        }
        self.0.rotate_left(1);
        self.0[CHECKS as usize - 1] = sample;
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
pub(super) struct PingProgress(Option<Box<ReadProgress>>);

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
        // A peer whose buffers are full is slow, not dead. Its progress limits how slow it may be.
        let now = services.timeouts.clock().now();
        let progress = self.0.get_or_insert_with(|| Box::new(ReadProgress::new(now, socket)));
        progress.check(now, socket, &services.settings)?;
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
    progress: ReadProgress,
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
            let progress = ReadProgress::new(timeouts.clock().now(), socket);
            let timeout = timeouts.sleep_until(progress.next_at(settings.write_timeout));
            Box::new(StalledWrite { timeout, progress })
        });
        while Pin::new(&mut held.timeout).poll(context).is_ready() {
            held.progress.check(timeouts.clock().now(), socket, settings)?;
            held.timeout = timeouts.sleep_until(held.progress.next_at(settings.write_timeout));
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn sample(ms: u64, acknowledged: u32) -> Sample {
        Sample { at: Timestamp::from_nanos((ms + 1) * 1_000_000), acknowledged }
    }

    /// Returns when the peer is found to be too slow, if it is. It must acknowledge 512 bytes in two seconds.
    fn too_slow_at(acknowledged: impl Fn(u64) -> u32) -> Option<u64> {
        let mut progress = ReadProgress([sample(0, acknowledged(0)); _]);
        (500..10_000).step_by(500).find(|ms| {
            assert!(progress.next_at(LIMIT) <= sample(*ms, 0).at);
            progress.advance(sample(*ms, acknowledged(*ms)), true, LIMIT, 512) == Err(TooSlow)
        })
    }

    #[test]
    fn a_peer_that_stops_reading_is_noticed_within_a_quarter_of_the_limit() {
        assert_eq!(too_slow_at(|_| 7), Some(2_000));
        for last in [1, 499, 501, 1_500, 3_300] {
            let read = |ms: u64| u32::MAX.wrapping_add(u32::try_from(ms.min(last)).expect("small") * 1_000);
            let noticed = too_slow_at(read).expect("it stops reading");
            assert!((last + 2_000..=last + 2_500).contains(&noticed), "{last}: {noticed}");
        }
        assert_eq!(
            too_slow_at(|ms| u32::try_from(ms / 2_000).expect("small") * 512),
            None,
            "slow, but not too slow"
        );
    }

    #[test]
    fn a_peer_that_has_read_everything_starts_afresh() {
        let mut progress = ReadProgress([sample(0, 7); _]);
        assert_eq!(progress.advance(sample(3_000, 7), false, LIMIT, 512), Ok(()));
        assert_eq!(progress.advance(sample(4_500, 7), true, LIMIT, 512), Ok(()));
        assert_eq!(progress.advance(sample(5_000, 7), true, LIMIT, 512), Err(TooSlow));
    }
}
