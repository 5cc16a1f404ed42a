//! Keys of the issuer of clients' tokens, published as a JSON Web Key Set at a URL or in a file.
//!
//! One task fetches the set: at startup, periodically, and when a token names an unknown key. Until the set
//! has been fetched for such a token, the token's validity is unknown and its client must retry. If a fetch
//! fails, the current keys stay in use, and the fetch is retried with increasing delays.

mod fetch;
mod settings;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_base::outbound::Backoff;
use encke_core::Timestamp;
use encke_timeouts::Timeouts;
use futures_util::FutureExt;
use futures_util::future::{pending, select};
use tokio::sync::{Notify, watch};

use crate::auth::{Auth, KeySet};
use fetch::KeySetFetcher;
pub(crate) use fetch::read_keys;
pub(crate) use settings::{IssuerSettings, KeySource};

/// How long a set counts as fresh. A token does not cause a fresh set to be fetched again, so forged tokens
/// cannot control the frequency of fetches.
const FRESH_FOR: Duration = Duration::from_secs(10);

/// Keeps the issuer's keys up to date.
pub(crate) struct Issuer {
    fetcher: KeySetFetcher,
    refresh: Duration,
    timeout: Duration,
    keys: Arc<KeySet>,
    /// Result of the last attempt. Watchers are notified of each attempt.
    last: watch::Sender<Attempt>,
    /// Notified when a token needs the set before the next periodic fetch.
    refresh_wanted: Notify,
    /// Notified when the operator requests a reload.
    reload_requested: Notify,
    metrics: Arc<Metrics>,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// No attempt has finished yet.
    None,
    /// The set was fetched. The fetch began at this time, so the set contains all keys published earlier.
    Succeeded(Timestamp),
    /// The fetch failed. The next attempt follows after a delay; tokens cannot trigger it earlier.
    Failed,
}

impl Issuer {
    /// Creates the issuer. Nothing is fetched before [`Self::start`].
    pub(crate) fn new(
        settings: IssuerSettings,
        keys: Arc<KeySet>,
        metrics: Arc<Metrics>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
    ) -> Self {
        let IssuerSettings { source, refresh, timeout } = settings;
        metrics.issuer.create_series();
        Self {
            fetcher: KeySetFetcher::new(source, timeout, &timeouts),
            refresh,
            timeout,
            keys,
            last: watch::Sender::new(Attempt::None),
            refresh_wanted: Notify::new(),
            reload_requested: Notify::new(),
            metrics,
            timeouts,
            entropy,
        }
    }

    /// Starts the task that fetches the set until the runtime shuts down.
    pub(crate) fn start(self: &Arc<Self>, executor: &dyn Executor) {
        let this = Arc::clone(self);
        executor.spawn(Box::pin(async move { this.run().await }));
    }

    /// Whether the set may contain the key of this token but has to be fetched first.
    pub(crate) fn may_have_key_for(&self, token: &str, auth: &Auth) -> bool {
        !self.is_fresh() && !auth.has_key_for(token)
    }

    /// Requests a fetch, unless the set is fresh. Returns whether the set is fresh: if so, a key missing from
    /// it does not belong to the issuer.
    pub(crate) fn ensure_fresh(&self) -> bool {
        let fresh = self.is_fresh();
        if !fresh {
            self.refresh_wanted.notify_one();
        }
        fresh
    }

    /// Requests a fetch now, regardless of the last result.
    pub(crate) fn request_reload(&self) {
        self.reload_requested.notify_one();
    }

    /// Waits until the set has been fetched, unless it was fetched recently. Waits at most for the timeout,
    /// and not at all if the last attempt failed.
    pub(crate) async fn wait_for_refresh(&self) {
        let mut last = self.last.subscribe();
        if *last.borrow_and_update() != Attempt::Failed && !self.ensure_fresh() {
            self.timeouts.within(self.timeout, last.changed()).await;
        }
    }

    fn is_fresh(&self) -> bool {
        let now = self.timeouts.clock().now();
        matches!(*self.last.borrow(), Attempt::Succeeded(at) if now.since(at) < FRESH_FOR)
    }

    async fn run(&self) {
        let mut backoff = Backoff::new();
        loop {
            let begun = self.timeouts.clock().now();
            let is_read = self.fetch_once().await;
            // Discard a request that a token made before now: this attempt covers it.
            let _ = self.refresh_wanted.notified().now_or_never();
            let (attempt, pause) = if is_read {
                backoff = Backoff::new();
                (Attempt::Succeeded(begun), self.refresh)
            } else {
                (Attempt::Failed, backoff.pause(&self.entropy))
            };
            self.last.send_replace(attempt);
            let by_a_token = async {
                match attempt {
                    // Tokens must not trigger retries while the issuer does not respond.
                    Attempt::Failed => pending().await,
                    _ => self.refresh_wanted.notified().await,
                }
            };
            let by_a_token = pin!(by_a_token);
            let by_itself = select(self.timeouts.sleep(pause), by_a_token);
            select(by_itself, pin!(self.reload_requested.notified())).await;
        }
    }

    /// Fetches the set once. Returns whether that succeeded.
    async fn fetch_once(&self) -> bool {
        match self.fetcher.keys().await {
            Ok((keys, ignored)) => {
                if *self.last.borrow() == Attempt::Failed {
                    tracing::info!(source = %self.fetcher, "issuer's keys are available again");
                }
                tracing::debug!(source = %self.fetcher, keys = keys.len(), ignored, "issuer's keys fetched");
                self.metrics.issuer.read(keys.len(), self.timeouts.clock().unix_now());
                self.keys.replace(keys);
                true
            }
            Err(problem) => {
                self.metrics.issuer.failed();
                tracing::warn!(source = %self.fetcher, %problem, "cannot fetch the issuer's keys: keeping the present ones (auth.jwks)");
                false
            }
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("source", &self.fetcher.to_string()).finish_non_exhaustive()
    }
}
