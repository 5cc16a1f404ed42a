//! Log of failed hook requests, of invalid responses, and of refusals that suggest a wrong secret.

use std::collections::HashMap;
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_base::outbound::{OutboundResponse, Target, excerpt};
use encke_core::Timestamp;
use hyper::header::CONTENT_TYPE;

use super::failure::HookFailure;
use super::hook::HookKind;
use crate::admission::LogThrottle;

/// Minimum time between two lines about the same cause.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of causes that are remembered. Beyond it, all other causes of a hook count as one.
const MAX_CAUSES: usize = 64;

/// Problem with a hook request, for the operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookProblem<'a> {
    #[error(transparent)]
    Failure(&'a HookFailure),
    #[error(
        "the backend answered 401: it may have another secret than backend.secret; to refuse the client, it must answer 403"
    )]
    Unauthorized,
}

/// Log with at most one line a minute about each cause.
#[derive(Debug, Default)]
pub(super) struct ProblemLog {
    throttles: Mutex<HashMap<(HookKind, String), LogThrottle>>,
}

impl ProblemLog {
    /// Logs a problem. `reply` is `None` if the backend did not reply.
    pub(super) fn report(
        &self,
        (hook, target): (HookKind, &Target),
        problem: &HookProblem<'_>,
        reply: Option<&OutboundResponse>,
        now: Timestamp,
    ) {
        let Some(suppressed) = self.pass(hook, problem.cause(), now) else { return };
        let content_type = reply.and_then(|reply| reply.headers.get(CONTENT_TYPE)?.to_str().ok());
        tracing::warn!(
            hook = <&str>::from(hook),
            url = %target,
            %problem,
            status = reply.map(|reply| reply.status.as_u16()),
            content_type,
            body = reply.map(|reply| excerpt(&reply.body)),
            suppressed,
            "{}",
            problem.message()
        );
    }

    /// Returns `Some` if a line may be logged now, with the number of lines suppressed since the last one.
    fn pass(&self, hook: HookKind, cause: String, now: Timestamp) -> Option<u64> {
        let mut throttles = self.throttles.lock();
        let mut key = (hook, cause);
        if throttles.len() >= MAX_CAUSES && !throttles.contains_key(&key) {
            throttles.retain(|_, throttle| !throttle.is_over(now));
            if throttles.len() >= MAX_CAUSES {
                key.1.clear();
            }
        }
        let throttle = throttles.entry(key).or_insert_with(|| LogThrottle::with_interval(LOG_INTERVAL));
        throttle.pass(now)
    }
}

impl HookProblem<'_> {
    fn cause(&self) -> String {
        match self {
            Self::Failure(HookFailure::Malformed(malformed)) => malformed.cause(),
            _ => self.to_string(),
        }
    }

    fn message(&self) -> &'static str {
        match self {
            Self::Failure(HookFailure::Malformed(_)) => {
                "the backend's response is not valid: the request is denied"
            }
            Self::Failure(_) => "the backend has failed: the request is denied",
            Self::Unauthorized => "the backend has rejected a request of the server: it is denied",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_remembered_causes_is_limited() {
        let log = ProblemLog::default();
        let at = |secs: u64| Timestamp::from_nanos((1 + secs) * 1_000_000_000);
        let pass = |hook, cause: usize, secs| log.pass(hook, cause.to_string(), at(secs));
        for cause in 0..MAX_CAUSES {
            assert_eq!(pass(HookKind::Connect, cause, 0), Some(0), "{cause}");
            assert_eq!(pass(HookKind::Connect, cause, 59), None, "{cause}");
        }
        // Further causes of a hook share one line a minute.
        assert_eq!(pass(HookKind::Connect, MAX_CAUSES, 59), Some(0));
        let suppressed = (1..1_000).filter(|n| pass(HookKind::Connect, MAX_CAUSES + n, 59).is_none());
        assert_eq!(suppressed.count(), 999);
        assert_eq!(pass(HookKind::Call, 0, 59), Some(0));
        assert_eq!(log.throttles.lock().len(), MAX_CAUSES + 2);
        assert_eq!(pass(HookKind::Connect, 0, 60), Some(1));
        // Causes that were last logged a minute ago are forgotten.
        assert_eq!(pass(HookKind::Connect, MAX_CAUSES, 60), Some(0));
        assert_eq!(log.throttles.lock().len(), 4);
    }
}
