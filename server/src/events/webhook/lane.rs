//! The task that delivers the events of one lane.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_base::outbound::{Backoff, OutboundError, OutboundResponse, excerpt, headers};
use futures_util::future::select;
use hyper::StatusCode;

use super::batch::{EventBatch, MAX_BATCH_EVENTS};
use super::lanes::{Lane, Webhook};

/// How long a batch waits for more events after its first.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Maximum pause between attempts while the server shuts down.
const MAX_SHUTDOWN_PAUSE: Duration = Duration::from_millis(250);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryFailure {
    #[error("the receiver answered {}", explained(*status))]
    Status {
        status: StatusCode,
        /// Beginning of the body.
        body: String,
    },
    #[error(transparent)]
    Outbound(#[from] OutboundError),
}

fn explained(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED => "401: it may have another secret than webhook.secret".to_owned(),
        status => status.to_string(),
    }
}

impl DeliveryFailure {
    /// Returns the beginning of the response's body, if there was a response.
    pub(super) fn body(&self) -> Option<&str> {
        match self {
            Self::Status { body, .. } => Some(body),
            Self::Outbound(_) => None,
        }
    }
}

impl Lane {
    pub(super) async fn run(self: Arc<Self>, webhook: Arc<Webhook>) {
        loop {
            self.await_batch(&webhook).await;
            if let Some(batch) = self.queue.take() {
                self.deliver(&webhook, &batch).await;
                webhook.finish(&batch);
            }
        }
    }

    /// Waits until a batch is ready to be sent.
    async fn await_batch(&self, webhook: &Webhook) {
        while self.queue.len() == 0 {
            self.filled.notified().await;
        }
        let is_full = pin!(async {
            while self.queue.len() < MAX_BATCH_EVENTS {
                self.filled.notified().await;
            }
        });
        select(is_full, pin!(webhook.pause(BATCH_DELAY))).await;
    }

    /// Sends a batch, repeatedly if necessary, until it is accepted or `retry_for` has passed.
    async fn deliver(&self, webhook: &Webhook, batch: &EventBatch) {
        let clock = webhook.timeouts.clock();
        let until = clock.now() + webhook.settings.retry_for;
        let mut backoff = Backoff::new();
        loop {
            let outcome = webhook.send(batch).await;
            webhook.record_result(outcome.as_ref().err());
            let Err(problem) = outcome else { return webhook.counters.delivered(batch.events) };
            if clock.now() >= until {
                let (name, events) = (&*webhook.settings.name, batch.events);
                tracing::error!(webhook = name, events, %problem, "webhook events dropped: the retry time is over (webhook.retry_for)");
                webhook.counters.expired(events);
                return self.queue.count_dropped(events as u64 + batch.dropped);
            }
            let pause = backoff.pause(&webhook.entropy).min(until.since(clock.now()));
            webhook.pause(pause).await;
        }
    }
}

impl Webhook {
    async fn send(&self, batch: &EventBatch) -> Result<(), DeliveryFailure> {
        let now = self.timeouts.clock().unix_now();
        let headers = headers(&batch.id, now, &batch.body, Some(&self.settings.secret));
        let settings = &self.settings;
        let reply = self.client.post(&settings.target, headers, batch.body.clone(), settings.timeout).await;
        let OutboundResponse { status, body, .. } = reply?;
        if status.is_success() {
            return Ok(());
        }
        Err(DeliveryFailure::Status { status, body: excerpt(&body) })
    }

    /// Waits for `pause`, or less if the server is shutting down.
    async fn pause(&self, pause: Duration) {
        if !self.pending.is_hurried() {
            select(pin!(self.timeouts.sleep(pause)), pin!(self.pending.hurried())).await;
        } else if pause > BATCH_DELAY {
            self.timeouts.sleep(pause.min(MAX_SHUTDOWN_PAUSE)).await;
        }
    }
}
