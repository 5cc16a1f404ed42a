use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::locks::Mutex;
use encke_base::metrics::BackendMetrics;
#[cfg(feature = "simulation")]
use encke_base::outbound::SimulatedTarget;
use encke_base::outbound::{OutboundClient, OutboundResponse, Target, headers};
use encke_core::Timestamp;
use encke_timeouts::Timeouts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use hyper::header::HeaderName;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use strum::VariantNames;
use tokio::sync::oneshot;

use super::bodies::parse_response;
use super::breaker::{Breaker, BreakerPass};
use super::failure::{HookFailure, is_refusal};
use super::hook::{HookCaller, HookError, HookKind, MAX_BODY_BYTES};
use super::in_flight::{InFlight, InFlightPermit};
use super::malformed::MalformedResponse;
use super::problem_log::{HookProblem, ProblemLog};
use super::settings::BackendSettings;

/// Maximum number of idle connections to the backend that are kept for later requests.
const IDLE_CONNECTIONS: usize = 64;
/// Outcome of a hook request without a [`HookError`], as a metric label.
const ANSWERED: &str = "answered";

/// Client of the operator's backend.
#[derive(Debug)]
pub(crate) struct Backend {
    settings: BackendSettings,
    client: OutboundClient,
    breakers: Vec<(HookKind, Mutex<Breaker>)>,
    in_flight: Arc<InFlight>,
    problems: ProblemLog,
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
        let in_flight = Arc::new(InFlight::new(
            settings.max_in_flight,
            settings.max_in_flight_per_session,
            settings.targets.iter().map(|(hook, _)| *hook),
            Arc::clone(&metrics),
        ));
        let client = OutboundClient::new(
            settings.trust.clone(),
            Arc::clone(&timeouts),
            IDLE_CONNECTIONS,
            MAX_BODY_BYTES,
        );
        for (hook, _) in &settings.targets {
            metrics.create_series(hook.into(), HookError::VARIANTS.iter().copied().chain([ANSWERED]));
        }
        let breakers = settings.targets.iter().map(|(hook, _)| (*hook, Mutex::default())).collect();
        let problems = ProblemLog::default();
        Self { settings, client, breakers, in_flight, problems, metrics, timeouts, entropy, executor }
    }

    /// Lets `target` answer all requests.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulate(&mut self, target: SimulatedTarget) {
        self.client.simulate(target);
    }

    /// Number of requests in flight.
    #[cfg(feature = "simulation")]
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.count()
    }

    /// Returns whether a URL is configured for this hook.
    pub(crate) fn has_hook(&self, hook: HookKind) -> bool {
        self.target(hook).is_some()
    }

    /// Names of the client's headers and cookies that are passed to the backend.
    pub(crate) fn forwarded_names(&self) -> (&[HeaderName], &[String]) {
        (&self.settings.headers, &self.settings.cookies)
    }

    /// Calls the backend. `interpret` checks and converts an approving answer; if it fails, the answer is not valid.
    /// The request is sent by a task that this function spawns, so dropping the returned future does not cancel it.
    pub(crate) fn call<T: DeserializeOwned, U: Send + 'static>(
        self: &Arc<Self>,
        hook: HookKind,
        caller: HookCaller,
        request: &(impl Serialize + ?Sized),
        interpret: impl FnOnce(T) -> Result<U, String> + Send + 'static,
    ) -> BoxFuture<'static, Result<U, HookError>> {
        let body = serde_json::to_vec(request).expect("all keys are strings");
        let begun = self.admit(hook, &caller, body.len());
        let (permit, admitted) = match begun {
            Ok(begun) => begun,
            Err(problem) => {
                self.metrics.request_finished(hook.into(), (&problem).into());
                return std::future::ready(Err(problem)).boxed();
            }
        };
        let (sender, answer) = oneshot::channel();
        let this = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            let answer = this.exchange(hook, &caller, admitted, body, interpret).await;
            drop(permit);
            // Ignore the error: the receiver may have been dropped.
            let _ = sender.send(answer);
        }));
        // The sender is dropped unused only when the runtime shuts down.
        answer.map(|answer| answer.unwrap_or(Err(HookError::Unavailable))).boxed()
    }

    fn admit(
        &self,
        hook: HookKind,
        caller: &HookCaller,
        length: usize,
    ) -> Result<(InFlightPermit, BreakerPass), HookError> {
        if length > MAX_BODY_BYTES {
            return Err(HookError::TooLarge);
        }
        let permit = self.in_flight.take(hook, caller).ok_or(HookError::Overloaded)?;
        let admitted = self.breaker(hook).lock().admit(caller, self.timeouts.clock().now());
        Ok((permit, admitted.ok_or(HookError::Unavailable)?))
    }

    async fn exchange<T: DeserializeOwned, U>(
        &self,
        hook: HookKind,
        caller: &HookCaller,
        admitted: BreakerPass,
        body: Vec<u8>,
        interpret: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<U, HookError> {
        let begun = self.timeouts.clock().now();
        let outcome = self.post(hook, body, interpret).await;
        let answer = match outcome {
            Ok(answer) => {
                self.record_success(hook);
                answer
            }
            Err(problem) => {
                self.record_failure(hook, caller, admitted, &problem);
                Err(problem.error())
            }
        };
        let outcome = answer.as_ref().map_or_else(Into::into, |_| ANSWERED);
        self.metrics.request_finished(hook.into(), outcome);
        self.metrics.observe_duration(hook.into(), self.timeouts.clock().now().since(begun));
        answer
    }

    /// Sends the request and reads the response. The inner result is the backend's decision.
    async fn post<T: DeserializeOwned, U>(
        &self,
        hook: HookKind,
        body: Vec<u8>,
        interpret: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<Result<U, HookError>, HookFailure> {
        let Self { settings, client, timeouts, .. } = self;
        let target = self.target(hook).expect("only configured hooks are called");
        let id = data_encoding::BASE64URL_NOPAD.encode(&self.entropy.bytes::<12>());
        let headers = headers(&id, timeouts.clock().unix_now(), &body, settings.secret.as_ref());
        let reply = client.post(target, headers, body.into(), settings.timeout).await;
        let reply = reply.map_err(|error| self.failed(hook, HookFailure::Outbound(error), None))?;
        match reply.status {
            status if status.is_success() => parse_response(hook, &reply.body)
                .and_then(|answer| match answer {
                    Ok(approved) => {
                        interpret(approved).map(Ok).map_err(|problem| MalformedResponse::new(&problem))
                    }
                    Err(refused) => Ok(Err(refused)),
                })
                .map_err(|malformed| self.failed(hook, HookFailure::Malformed(malformed), Some(&reply))),
            status if is_refusal(status) => Ok(Err(self.refusal(hook, &reply))),
            _ => Err(self.failed(hook, HookFailure::of_status(&reply), Some(&reply))),
        }
    }

    /// Returns the error for a response whose 4xx status refuses the request.
    fn refusal(&self, hook: HookKind, reply: &OutboundResponse) -> HookError {
        let status = reply.status;
        let message = match parse_response::<IgnoredAny>(hook, &reply.body) {
            Ok(Err(refused)) => return refused,
            // The backend may have rejected the server's signature, so a client must not give up. This is no failure
            // for the circuit breaker, because the backend may also mean that this client is not logged in.
            _ if status == StatusCode::UNAUTHORIZED => {
                self.report(hook, &HookProblem::Unauthorized, Some(reply));
                return HookError::Unavailable;
            }
            Err(malformed) if malformed.is_too_long => {
                let message = format!("the backend answered {status}, but {malformed}");
                self.report(hook, &HookProblem::Failure(&HookFailure::Malformed(malformed)), Some(reply));
                message
            }
            _ => format!("the backend answered {status}"),
        };
        HookError::Refused { code: None, message }
    }

    /// Logs a failure and returns it.
    fn failed(&self, hook: HookKind, failure: HookFailure, reply: Option<&OutboundResponse>) -> HookFailure {
        self.report(hook, &HookProblem::Failure(&failure), reply);
        failure
    }

    fn report(&self, hook: HookKind, problem: &HookProblem<'_>, reply: Option<&OutboundResponse>) {
        let target = self.target(hook).expect("only configured hooks are called");
        self.problems.report((hook, target), problem, reply, self.timeouts.clock().now());
    }

    fn record_success(&self, hook: HookKind) {
        if self.breaker(hook).lock().record_success(self.timeouts.clock().now()) {
            self.metrics.set_circuit_open(hook.into(), false);
            tracing::info!(hook = <&str>::from(hook), "backend recovered");
        }
    }

    fn record_failure(
        &self,
        hook: HookKind,
        caller: &HookCaller,
        admitted: BreakerPass,
        problem: &HookFailure,
    ) {
        let now: Timestamp = self.timeouts.clock().now();
        let hook_name = <&str>::from(hook);
        let mut breaker = self.breaker(hook).lock();
        let rejected_all = breaker.rejects_all();
        let has_opened = breaker.record_failure(caller, admitted, now);
        let rejects_all = breaker.rejects_all();
        self.metrics.set_circuit_open(hook.into(), rejects_all);
        drop(breaker);
        if rejects_all && !rejected_all {
            tracing::warn!(hook = hook_name, %problem, "backend is failing: the circuit breaker is open for all clients");
        } else if has_opened {
            tracing::warn!(hook = hook_name, %problem, "backend is failing: the circuit breaker is open for the clients whose requests fail");
        } else {
            tracing::debug!(hook = hook_name, %problem, "backend request failed");
        }
    }

    fn target(&self, hook: HookKind) -> Option<&Target> {
        self.settings.targets.iter().find(|(found, _)| *found == hook).map(|(_, target)| target)
    }

    fn breaker(&self, hook: HookKind) -> &Mutex<Breaker> {
        let found = self.breakers.iter().find(|(found, _)| *found == hook);
        found.map(|(_, breaker)| breaker).expect("only configured hooks are called")
    }
}
