use std::net::IpAddr;
use std::sync::Arc;

use encke_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use hyper::header::HeaderName;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::VariantArray;
use tokio::sync::oneshot;

use super::breaker::{Admitted, Breaker};
use super::in_flight::{InFlight, Place};
use super::question::read;
use super::settings::BackendSettings;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::BackendMetrics;
use crate::outbound::{Client, OutboundError, Target, headers};
use crate::timeouts::Timeouts;

/// The longest question, and the longest answer, in bytes.
const LONGEST: usize = 64 * 1024;
/// Connections that are kept for the next questions.
const IDLE_CONNECTIONS: usize = 64;

/// What the backend is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Ask {
    /// Who a client is that comes, and whether it may.
    Connect,
    /// Whether a client may follow a channel.
    Subscribe,
    /// Whether a client may publish, and what.
    Publish,
    /// Whatever clients call it for.
    Call,
}

/// On whose behalf it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// The session with this number.
    Session(u128),
    /// A client that has no session yet, from here.
    Address(IpAddr),
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The backend said so.
    #[error("{message}")]
    Refused { code: Option<Box<str>>, message: String },
    #[error("the backend cannot be asked now")]
    Unavailable,
    #[error("the backend has not answered in time (backend.timeout)")]
    TimedOut,
    #[error("too many questions are under way (backend.max_in_flight, backend.max_in_flight_per_session)")]
    Overloaded,
    #[error("it is longer than {LONGEST} bytes, which is all that the backend is asked")]
    TooLarge,
}

/// Asks the backend.
#[derive(Debug)]
pub(crate) struct Backend {
    settings: BackendSettings,
    client: Client,
    breakers: Vec<(Ask, Mutex<Breaker>)>,
    in_flight: Arc<InFlight>,
    metrics: Arc<BackendMetrics>,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
    executor: Arc<dyn Executor>,
}

impl Backend {
    pub(crate) fn new(
        settings: BackendSettings,
        metrics: Arc<BackendMetrics>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let (most, most_each) = (settings.max_in_flight, settings.max_in_flight_per_session);
        let in_flight = Arc::new(InFlight::new(most, most_each, Arc::clone(&metrics)));
        let client = Client::new(settings.trust.clone(), Arc::clone(&timeouts), IDLE_CONNECTIONS, LONGEST);
        for (ask, _) in &settings.targets {
            metrics.begin(ask.into(), Outcome::VARIANTS.iter().map(Into::into));
        }
        let breakers = settings.targets.iter().map(|(ask, _)| (*ask, Mutex::default())).collect();
        Self { settings, client, breakers, in_flight, metrics, timeouts, entropy, executor }
    }

    /// Whether it is asked this at all.
    pub(crate) fn is_asked(&self, ask: Ask) -> bool {
        self.target(ask).is_some()
    }

    /// The headers and the cookies of a client that are passed on, by their names.
    pub(crate) fn passed_on(&self) -> (&[HeaderName], &[String]) {
        (&self.settings.headers, &self.settings.cookies)
    }

    /// Asks it. The question is on its way when this returns; to drop the answer does not take it back.
    pub(crate) fn ask<T: DeserializeOwned + Send + 'static>(
        self: &Arc<Self>,
        ask: Ask,
        asker: Asker,
        question: &(impl Serialize + ?Sized),
    ) -> BoxFuture<'static, Result<T, NoAnswer>> {
        let body = serde_json::to_vec(question).expect("its keys are text");
        let begun = self.begin(ask, asker, body.len());
        let (place, admitted) = match begun {
            Ok(begun) => begun,
            Err(problem) => {
                self.metrics.asked(ask.into(), Outcome::from(&problem).into());
                return std::future::ready(Err(problem)).boxed();
            }
        };
        let (sender, answer) = oneshot::channel();
        let this = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            let answer = this.exchange(ask, admitted, body).await;
            drop(place);
            // Whoever asked may have left.
            let _ = sender.send(answer);
        }));
        // The task is dropped with the runtime.
        answer.map(|answer| answer.unwrap_or(Err(NoAnswer::Unavailable))).boxed()
    }

    fn begin(&self, ask: Ask, asker: Asker, length: usize) -> Result<(Place, Admitted), NoAnswer> {
        if length > LONGEST {
            return Err(NoAnswer::TooLarge);
        }
        let place = self.in_flight.take(asker).ok_or(NoAnswer::Overloaded)?;
        let admitted = self.breaker(ask).lock().admit(self.timeouts.clock().now());
        Ok((place, admitted.ok_or(NoAnswer::Unavailable)?))
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        ask: Ask,
        admitted: Admitted,
        body: Vec<u8>,
    ) -> Result<T, NoAnswer> {
        let begun = self.timeouts.clock().now();
        let outcome = self.post(ask, body).await;
        let answer = match outcome {
            Ok(answer) => {
                self.answered(ask);
                answer
            }
            Err(problem) => {
                self.failed(ask, admitted, &problem);
                Err(if matches!(problem, Problem::Outbound(OutboundError::TimedOut(_))) {
                    NoAnswer::TimedOut
                } else {
                    NoAnswer::Unavailable
                })
            }
        };
        let outcome = answer.as_ref().map_or_else(Outcome::from, |_| Outcome::Answered);
        self.metrics.asked(ask.into(), outcome.into());
        self.metrics.took(ask.into(), self.timeouts.clock().now().since(begun));
        answer
    }

    /// What the backend says, be it no.
    async fn post<T: DeserializeOwned>(
        &self,
        ask: Ask,
        body: Vec<u8>,
    ) -> Result<Result<T, NoAnswer>, Problem> {
        let Self { settings, client, timeouts, .. } = self;
        let target = self.target(ask).expect("it is asked what it is configured for");
        let id = data_encoding::BASE64URL_NOPAD.encode(&self.entropy.bytes::<12>());
        let headers = headers(&id, timeouts.clock().unix_now(), &body, settings.secret.as_ref());
        let reply = client.post(target, headers, body.into(), settings.timeout).await;
        let reply = reply.map_err(Problem::Outbound)?;
        match reply.status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(Problem::Status(reply.status)),
            // Of a body that ends with its connection nobody knows whether it is all: an empty one could be any.
            status if status.is_success() && (reply.is_whole || !reply.body.is_empty()) => {
                read(&reply.body).ok_or(Problem::Unreadable)
            }
            // What many frameworks make of a no.
            status if status.is_client_error() => Ok(match read::<T>(&reply.body) {
                Some(Err(refused)) => Err(refused),
                _ => Err(NoAnswer::Refused { code: None, message: format!("the backend answers {status}") }),
            }),
            status => Err(Problem::Status(status)),
        }
    }

    fn answered(&self, ask: Ask) {
        if self.breaker(ask).lock().succeeded() {
            self.metrics.opened(ask.into(), false);
            tracing::info!(ask = <&str>::from(ask), "the backend answers again");
        }
    }

    fn failed(&self, ask: Ask, admitted: Admitted, problem: &Problem) {
        let now: Timestamp = self.timeouts.clock().now();
        let ask_name = <&str>::from(ask);
        if self.breaker(ask).lock().failed(admitted, now) {
            self.metrics.opened(ask.into(), true);
            tracing::warn!(ask = ask_name, %problem, "the backend fails: it is left alone, but for a question now and then");
        } else {
            tracing::debug!(ask = ask_name, %problem, "the backend has not answered");
        }
    }

    fn target(&self, ask: Ask) -> Option<&Target> {
        self.settings.targets.iter().find(|(found, _)| *found == ask).map(|(_, target)| target)
    }

    fn breaker(&self, ask: Ask) -> &Mutex<Breaker> {
        let found = self.breakers.iter().find(|(found, _)| *found == ask);
        found.map(|(_, breaker)| breaker).expect("it is asked what it is configured for")
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Outbound(OutboundError),
    #[error("it answers {0}")]
    Status(StatusCode),
    #[error("its answer is not what it should be")]
    Unreadable,
}

/// What a question comes to, for metrics.
#[derive(Clone, Copy, Debug, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
enum Outcome {
    Answered,
    Refused,
    Unavailable,
    Timeout,
    Overloaded,
    TooLarge,
}

impl From<&NoAnswer> for Outcome {
    fn from(problem: &NoAnswer) -> Self {
        match problem {
            NoAnswer::Refused { .. } => Self::Refused,
            NoAnswer::Unavailable => Self::Unavailable,
            NoAnswer::TimedOut => Self::Timeout,
            NoAnswer::Overloaded => Self::Overloaded,
            NoAnswer::TooLarge => Self::TooLarge,
        }
    }
}
