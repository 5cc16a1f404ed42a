//! The keys of whoever issues clients' tokens, as that publishes them: a JSON Web Key Set, at a URL or in a file.
//!
//! One task reads the set: at the start, from time to time, and when a token names a key that is not there. Until the set has been read
//! for such a token, it is not known whether the token is good: its client is to come again. Where reading fails, the keys stay that are
//! there, and it is tried again, each time later.

mod fetch;
mod settings;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::{pending, select};
use tokio::sync::{Notify, watch};

use crate::auth::{Auth, KeySet};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::outbound::Backoff;
use crate::timeouts::Timeouts;
use fetch::Fetch;
pub(crate) use fetch::read_keys;
pub(crate) use settings::{IssuerSettings, KeySource};

/// A set that was read within so long is not read again for a token: whoever makes tokens up decides nothing about how often.
const FRESH: Duration = Duration::from_secs(10);

/// Knows the issuer's keys.
pub(crate) struct Issuer {
    fetch: Fetch,
    refresh: Duration,
    timeout: Duration,
    keys: Arc<KeySet>,
    /// What the last attempt has come to. It changes with each.
    last: watch::Sender<Attempt>,
    /// By a token: the set is wanted before its time.
    wanted: Notify,
    /// By whoever runs the server.
    ordered: Notify,
    metrics: Arc<Metrics>,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// There was none yet.
    None,
    /// It began then: what was published before is in the set.
    Succeeded(Timestamp),
    /// The next comes by itself, and not before its time.
    Failed,
}

impl Issuer {
    /// Nothing is read before [`Self::start`].
    pub(crate) fn new(
        settings: IssuerSettings,
        keys: Arc<KeySet>,
        metrics: Arc<Metrics>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
    ) -> Self {
        let IssuerSettings { source, refresh, timeout } = settings;
        metrics.issuer.begin();
        Self {
            fetch: Fetch::new(source, timeout, &timeouts),
            refresh,
            timeout,
            keys,
            last: watch::Sender::new(Attempt::None),
            wanted: Notify::new(),
            ordered: Notify::new(),
            metrics,
            timeouts,
            entropy,
        }
    }

    /// Begins to read the set, and goes on for as long as the runtime lives.
    pub(crate) fn start(self: &Arc<Self>, executor: &dyn Executor) {
        let this = Arc::clone(self);
        executor.spawn(Box::pin(async move { this.keep_up().await }));
    }

    /// Whether the set may have the key of this token, but has to be read first.
    pub(crate) fn may_know_more(&self, token: &str, auth: &Auth) -> bool {
        !self.is_fresh() && !auth.has_key_of(token)
    }

    /// Whether the set was read just now: a key that it does not have is none of the issuer's. If it was not, it will be.
    pub(crate) fn is_up_to_date(&self) -> bool {
        let fresh = self.is_fresh();
        if !fresh {
            self.wanted.notify_one();
        }
        fresh
    }

    /// Has the set read now, whatever came of it last.
    pub(crate) fn read_again(&self) {
        self.ordered.notify_one();
    }

    /// Waits until the set has been read, if it was not just now; not for ever, and not at all after an attempt that failed.
    pub(crate) async fn learn(&self) {
        let mut last = self.last.subscribe();
        if *last.borrow_and_update() != Attempt::Failed && !self.is_up_to_date() {
            self.timeouts.within(self.timeout, last.changed()).await;
        }
    }

    fn is_fresh(&self) -> bool {
        let now = self.timeouts.clock().now();
        matches!(*self.last.borrow(), Attempt::Succeeded(at) if now.since(at) < FRESH)
    }

    async fn keep_up(&self) {
        let mut backoff = Backoff::new();
        loop {
            let begun = self.timeouts.clock().now();
            let is_read = self.read().await;
            // Whose tokens came until now have it.
            let _ = self.wanted.notified().now_or_never();
            let (attempt, pause) = if is_read {
                backoff = Backoff::new();
                (Attempt::Succeeded(begun), self.refresh)
            } else {
                (Attempt::Failed, backoff.pause(&self.entropy))
            };
            self.last.send_replace(attempt);
            let by_a_token = async {
                match attempt {
                    // It says nothing new of an issuer that does not answer.
                    Attempt::Failed => pending().await,
                    _ => self.wanted.notified().await,
                }
            };
            let by_a_token = pin!(by_a_token);
            let by_itself = select(self.timeouts.sleep(pause), by_a_token);
            select(by_itself, pin!(self.ordered.notified())).await;
        }
    }

    /// Reads the set once. Returns whether it could be read.
    async fn read(&self) -> bool {
        match self.fetch.keys().await {
            Ok((keys, ignored)) => {
                if *self.last.borrow() == Attempt::Failed {
                    tracing::info!(from = ?self.fetch, "the issuer's keys can be read again");
                }
                tracing::debug!(from = ?self.fetch, keys = keys.len(), ignored, "the issuer's keys were read");
                self.metrics.issuer.read(keys.len(), self.timeouts.clock().unix_now());
                self.keys.replace(keys);
                true
            }
            Err(problem) => {
                self.metrics.issuer.failed();
                tracing::warn!(from = ?self.fetch, %problem, "the issuer's keys cannot be read: those of before hold (auth.jwks)");
                false
            }
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("from", &self.fetch).finish_non_exhaustive()
    }
}
