//! The task that delivers the events of one lane.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use hyper::StatusCode;

use super::batch::{Batch, MOST_EVENTS};
use super::lanes::{Lane, Webhook};
use crate::outbound::{Backoff, OutboundError, headers};

/// How long the first event of a batch waits for others.
const GATHERING: Duration = Duration::from_millis(50);
/// The longest pause between two tries while the server is going away.
const LAST_PAUSES: Duration = Duration::from_millis(250);

/// Why a request was not accepted.
#[derive(Debug)]
enum Problem {
    Status(StatusCode),
    Outbound(OutboundError),
}

impl Lane {
    pub(super) async fn run(self: Arc<Self>, webhook: Arc<Webhook>) {
        loop {
            self.gather(&webhook).await;
            if let Some(batch) = self.queue.take() {
                self.deliver(&webhook, &batch).await;
                webhook.is_over(&batch);
            }
        }
    }

    /// Waits until there is a batch to be sent.
    async fn gather(&self, webhook: &Webhook) {
        while self.queue.len() == 0 {
            self.filled.notified().await;
        }
        let is_full = pin!(async {
            while self.queue.len() < MOST_EVENTS {
                self.filled.notified().await;
            }
        });
        select(is_full, pin!(webhook.pause(GATHERING))).await;
    }

    /// Sends a batch until it is accepted, or until it has been tried for too long.
    async fn deliver(&self, webhook: &Webhook, batch: &Batch) {
        let clock = webhook.timeouts.clock();
        let until = clock.now() + webhook.settings.retry_for;
        let mut backoff = Backoff::new();
        loop {
            let outcome = webhook.send(batch).await;
            webhook.went(outcome.as_ref().err().map(|problem| problem as &dyn fmt::Display));
            let Err(problem) = outcome else { return webhook.counters.delivered(batch.events) };
            if clock.now() >= until {
                let (name, events) = (&*webhook.settings.name, batch.events);
                tracing::error!(webhook = name, events, %problem, "events are given up (webhook.retry_for)");
                webhook.counters.expired(events);
                return self.queue.dropped(events as u64 + batch.dropped);
            }
            let pause = backoff.pause(&webhook.entropy).min(until.since(clock.now()));
            webhook.pause(pause).await;
        }
    }
}

impl Webhook {
    async fn send(&self, batch: &Batch) -> Result<(), Problem> {
        let now = self.timeouts.clock().unix_now();
        let headers = headers(&batch.id, now, &batch.body, Some(&self.settings.secret));
        let settings = &self.settings;
        let reply = self.client.post(&settings.target, headers, batch.body.clone(), settings.timeout).await;
        let status = reply.map_err(Problem::Outbound)?.status;
        if status.is_success() { Ok(()) } else { Err(Problem::Status(status)) }
    }

    /// Waits, but no longer than it must once the server is going away.
    async fn pause(&self, pause: Duration) {
        if !self.pending.is_hurried() {
            select(pin!(self.timeouts.sleep(pause)), pin!(self.pending.hurried())).await;
        } else if pause > GATHERING {
            self.timeouts.sleep(pause.min(LAST_PAUSES)).await;
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "it answered {status}"),
            Self::Outbound(error) => write!(f, "{error}"),
        }
    }
}
