use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Receiver;
use encke_base::metrics::{ProcessView, Readings};
use encke_base::tls::Tls;
use encke_timeouts::clock::UnixTime;
use encke_timeouts::{ExpiryBatch, TimerScheme};
use tokio_util::sync::CancellationToken;

use super::busiest::BusiestCache;
use super::live::Live;
use crate::admission::Handshakes;
use crate::client;
use crate::http::public_url::PublicUrl;

/// State shared by the handlers of the admin listener.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Services>,
    pub(crate) timers: TimerSettings,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Data for the dashboard.
    pub(crate) live: Live,
    /// How the dashboard reaches the public listener.
    pub(crate) public: PublicListener,
    /// Connections of the public listener that have no session yet.
    pub(crate) handshakes: Arc<Handshakes>,
    /// Connections of this listener. If there are too many, the oldest connection of the address with the
    /// most connections is closed, so that health checks get through.
    pub(crate) admin_connections: Arc<Handshakes>,
    /// Maximum time for receiving a request's head, and again for its body.
    pub(crate) handshake_timeout: Duration,
    /// Batches of expiries queued for the workers.
    pub(crate) batches: Receiver<ExpiryBatch>,
    pub(crate) log_lines_dropped: LogLinesDropped,
    pub(crate) busiest: BusiestCache,
    /// Cancelled when the server drains.
    pub(crate) stop: CancellationToken,
}

/// How web pages reach the public listener.
#[derive(Debug)]
pub(crate) struct PublicListener {
    /// External URL, if configured.
    pub(crate) url: Option<PublicUrl>,
    pub(crate) port: u16,
    pub(crate) has_tls: bool,
}

/// Settings of the timers, for display.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerSettings {
    pub(crate) scheme: TimerScheme,
    pub(crate) tick: Duration,
    pub(crate) workers: usize,
    /// How long the wheel may make no progress before the server reports itself as unhealthy.
    pub(crate) watchdog: Duration,
}

/// Function that returns how many log lines were dropped.
pub type LogLinesDropped = Box<dyn Fn() -> u64 + Send + Sync>;

impl Context {
    /// Returns the scheme of this listener's URLs.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(super) fn readings(&self) -> Readings {
        let (timeouts, channels) = (&self.client.timeouts, &self.client.logs.channels);
        Readings {
            timer_entries: timeouts.entries(),
            stalls: timeouts.stats.stalls.load(Ordering::Relaxed),
            channels: channels.len(),
            log_bytes: channels.bytes(),
            partial_message_bytes: self.client.limits.partial_messages.bytes(),
            reminders: self.client.reminders.len(),
            dispatch_depth: self.batches.len(),
            dispatch_age: timeouts.dispatch_age(),
            worker_panics: timeouts.worker_panics(),
            log_lines_dropped: (self.log_lines_dropped)(),
            process: ProcessView::now(),
            started_at: self.live.settings.started_at.since(UnixTime::from_secs(0)),
        }
    }
}
