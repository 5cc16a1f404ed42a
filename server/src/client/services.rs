use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::metrics::Metrics;
use encke_base::parking;
use encke_base::trace::Tracer;
use encke_broker::engine::{RedisHealth, SharedUsers};
use encke_core::Timestamp;
use encke_core::session::ConnectionId;
use encke_timeouts::{Stalled, Timeouts};
use futures_util::future::select;

use super::{Access, PartialMessageSender, PresenceReplies, SharedLimits};
use crate::admission::PartialMessage;
use crate::reminders::Reminders;
use crate::session::{SessionCell, SessionLogs, SessionRef, Sessions, SharedSessions, Transport};

pub(crate) type ConnectionParking = parking::Parking<(SessionRef, ConnectionId)>;

/// Services shared by all client connections.
pub(crate) struct Services {
    pub(crate) timeouts: Arc<Timeouts>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) logs: SessionLogs,
    pub(crate) reminders: Arc<Reminders>,
    pub(crate) access: Access,
    pub(crate) presence_replies: PresenceReplies,
    /// Health of an engine outside this process.
    pub(crate) engine_health: Option<Arc<RedisHealth>>,
    /// Users that are online on any server, if several servers share them.
    pub(crate) shared_users: Option<Arc<SharedUsers>>,
    /// Sessions that several servers share. `None` if a session resumes only on its own server.
    pub(crate) shared_sessions: Option<Arc<SharedSessions>>,
    /// The trace exporter, if traces are exported.
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: SharedLimits,
    pub(crate) entropy: Entropy,
    /// State for parking connections; `None` if connections are never parked.
    pub(crate) parking: Option<ConnectionParking>,
    pub(crate) settings: ClientSettings,
}

/// A component that has stopped making progress while the server still appears healthy from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StalledComponent {
    /// Timeouts no longer expire.
    Timeouts(Stalled),
    /// Input on parked connections is no longer read.
    Parking,
}

impl StalledComponent {
    /// Returns the name for log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timeouts(Stalled::Wheel) => "wheel",
            Self::Timeouts(Stalled::Workers) => "workers",
            Self::Parking => "poller",
        }
    }
}

/// Minimum time for a client to read the last messages and close its side of the connection.
const MIN_CLOSING_TIME: Duration = Duration::from_millis(100);

impl Services {
    /// Records that the kernel has just accepted the last byte of a message published at this time.
    #[cold]
    pub(crate) fn delivered(&self, transport: Transport, published_at: Timestamp) {
        let time = self.timeouts.clock().now().since(published_at);
        self.metrics.connections.observe_delivery(transport.into(), time);
    }

    /// Completes when a closing connection has had enough time to deliver the close reason: `close_timeout`,
    /// or less while another connection needs a descriptor.
    pub(crate) async fn closing_elapsed(&self) {
        let since = self.timeouts.clock().now();
        let timeout = pin!(self.timeouts.sleep(self.settings.close_timeout));
        let is_needed = pin!(async {
            while self.timeouts.clock().now().since(since) < MIN_CLOSING_TIME {
                self.limits.descriptors.shortage().await;
            }
        });
        select(timeout, is_needed).await;
    }

    /// Checks that timeouts expire, and that input on parked connections is read, within `watchdog`.
    ///
    /// # Errors
    /// Returns the component that has stalled.
    pub(crate) fn health(&self, watchdog: Duration) -> Result<(), StalledComponent> {
        self.timeouts.health(watchdog).map_err(StalledComponent::Timeouts)?;
        let since = self.parking.as_ref().and_then(|parking| parking.poller.busy_since());
        match since {
            Some(since) if self.timeouts.clock().now().since(since) > watchdog => {
                Err(StalledComponent::Parking)
            }
            _ => Ok(()),
        }
    }

    /// Returns how long a poll is held: what the client asks for, capped by `poll_hold`. A client that has
    /// not received the polling advice yet is answered immediately.
    pub(crate) fn poll_hold(&self, requested: Option<Duration>, session: &SessionCell) -> Duration {
        let max =
            if session.is_advised() { self.sessions.lifecycle.settings().poll_hold } else { Duration::ZERO };
        requested.map_or(max, |requested| requested.min(max))
    }

    /// Counts a request against the rate limit, as for a frame, and delays it if it exceeds the limit.
    pub(crate) async fn count_request(&self, session: &SessionCell) {
        let next_at = session.frames.next_at();
        if next_at > self.timeouts.clock().now() {
            // The pause is boxed, because it is rarely needed.
            Box::pin(self.timeouts.sleep_until(next_at)).await;
        }
        self.count_frames(session, 1);
    }

    /// Counts frames from a session's client.
    pub(crate) fn count_frames(&self, session: &SessionCell, count: usize) {
        session.frames.count_input(count, self.settings.frames_per_second, self.timeouts.clock().now());
    }

    /// Records the size of a partial message. If all partial messages together are too large, some are
    /// aborted, possibly including this one.
    pub(crate) fn account_partial_message(
        &self,
        message: &PartialMessage<PartialMessageSender>,
        bytes: usize,
        now: Timestamp,
    ) {
        for sender in message.resize(bytes, now) {
            self.metrics.connections.partial_message_closed();
            sender.abort();
        }
    }
}

/// Settings and limits that apply to each client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// Maximum length of a channel's name, in bytes.
    pub(crate) channel_name_bytes: usize,
    /// Maximum number of subscriptions of one session.
    pub(crate) max_subscriptions: usize,
    /// Command rate of one session; 0 means unlimited.
    pub(crate) commands_per_second: u32,
    /// Frame rate of one session; 0 means unlimited.
    pub(crate) frames_per_second: u32,
    /// Maximum length of a message from a client, in bytes.
    pub(crate) max_message: usize,
    /// How long a client may take to acknowledge [`ClientSettings::min_progress`].
    pub(crate) write_timeout: Duration,
    /// How long an open connection may wait for its next request.
    pub(crate) keep_alive_timeout: Duration,
    /// Minimum rate at which a client must read, in bytes per second.
    pub(crate) min_read_rate: usize,
    /// How long to wait for the client to close its side of a connection that the server has closed.
    pub(crate) close_timeout: Duration,
}

impl ClientSettings {
    /// Returns the number of bytes that a client must acknowledge in each `write_timeout`, if that many are
    /// pending.
    pub(crate) fn min_progress(&self) -> u64 {
        let bytes =
            self.min_read_rate as u128 * self.write_timeout.as_nanos() / Duration::from_secs(1).as_nanos();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
}
