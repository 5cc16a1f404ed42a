//! Trace context of requests, and the sampling decision.

use hyper::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

use crate::entropy::Entropy;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// Decides whether a request is recorded.
#[derive(Debug)]
pub(super) struct TraceSampler {
    propagator: TraceContextPropagator,
    sampler: Sampler,
    entropy: Entropy,
}

/// Trace context of a request that is recorded.
#[derive(Debug)]
pub(super) struct SampledContext {
    pub(super) own: SpanContext,
    /// Span of the caller; invalid without a valid `traceparent`.
    pub(super) parent: SpanId,
}

/// Maximum length of a `tracestate`: the length that every implementation should propagate, according to the
/// specification. Each span holds a copy, so a longer one is dropped.
const MAX_STATE_BYTES: usize = 512;

/// The two headers of a trace context.
#[derive(Debug, Default)]
struct TraceHeaders<'a> {
    parent: Option<&'a str>,
    state: String,
}

impl<'a> TraceHeaders<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let all = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
        // A repeated `traceparent` is treated as absent.
        let mut parents = all(PARENT);
        let parent = parents.next().filter(|_| parents.next().is_none());
        // A repeated `tracestate` is one list in several parts.
        let length: usize = all(STATE).map(|part| part.len() + 1).sum();
        let state = if length <= MAX_STATE_BYTES + 1 {
            all(STATE).collect::<Vec<_>>().join(",")
        } else {
            String::new()
        };
        Self { parent, state }
    }
}

impl Extractor for TraceHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            PARENT => self.parent,
            STATE => Some(&self.state),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

impl TraceSampler {
    /// Creates a sampler. `sample` is the fraction of requests without a `traceparent` that are recorded,
    /// from 0 to 1.
    pub(super) fn new(sample: f64, entropy: Entropy) -> Self {
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(sample)));
        Self { propagator: TraceContextPropagator::new(), sampler, entropy }
    }

    /// Returns the context of a request to be recorded, or `None`. A caller's sampling decision applies to
    /// its whole trace.
    pub(super) fn sample(&self, name: &str, headers: &HeaderMap) -> Option<SampledContext> {
        let context = self.propagator.extract(&TraceHeaders::of(headers));
        let caller = context.span().span_context().clone();
        let trace =
            if caller.is_valid() { caller.trace_id() } else { TraceId::from_bytes(self.entropy.bytes()) };
        let SamplingResult { decision, trace_state, .. } =
            self.sampler.should_sample(Some(&context), trace, name, &SpanKind::Server, &[], &[]);
        if decision != SamplingDecision::RecordAndSample {
            return None;
        }
        let own = SpanContext::new(trace, self.span_id(), TraceFlags::SAMPLED, false, trace_state);
        Some(SampledContext { own, parent: caller.span_id() })
    }

    /// Creates the context of another span in the same trace.
    pub(super) fn child_of(&self, parent: &SpanContext) -> SpanContext {
        let (trace, state) = (parent.trace_id(), parent.trace_state().clone());
        SpanContext::new(trace, self.span_id(), parent.trace_flags(), false, state)
    }

    fn span_id(&self) -> SpanId {
        SpanId::from_bytes(self.entropy.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn admit(sample: f64, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<SampledContext> {
        let headers = [(PARENT, traceparent), (STATE, tracestate)];
        admit_with(sample, headers.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }

    fn admit_with<'a>(
        sample: f64,
        pairs: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) -> Option<SampledContext> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().expect("a header"));
        }
        TraceSampler::new(sample, Entropy::system()).sample("POST /api/publish", &headers)
    }

    #[test]
    fn caller_decides_for_its_trace() {
        for sample in [0.0, 1.0] {
            let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
            let admitted = admit(sample, Some(&parent), Some("vendor=1,other=2")).expect("sampled");
            assert_eq!(admitted.own.trace_id().to_string(), TRACE);
            assert_eq!(admitted.parent.to_string(), "00f067aa0ba902b7");
            assert_ne!(admitted.own.span_id(), admitted.parent);
            assert_eq!(admitted.own.trace_state().header(), "vendor=1,other=2");
            let parent = format!("00-{TRACE}-00f067aa0ba902b7-00");
            assert!(admit(sample, Some(&parent), None).is_none(), "the caller does not record it");
        }
    }

    #[test]
    fn repeated_traceparent_is_ignored_and_repeated_tracestate_is_joined() {
        let [one, other] =
            ["00f067aa0ba902b7", "00f067aa0ba902b8"].map(|span| format!("00-{TRACE}-{span}-01"));
        assert!(admit_with(0.0, [(PARENT, &*one), (PARENT, &*other)]).is_none());
        let admitted = admit_with(0.0, [(PARENT, &*one), (STATE, "a=1"), (STATE, "b=2")]).expect("sampled");
        assert_eq!(admitted.own.trace_state().header(), "a=1,b=2");
    }

    #[test]
    fn long_tracestate_is_dropped() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        // A value may have up to 256 bytes.
        let state =
            |last: usize| format!("a={},b={},c={}", "x".repeat(200), "x".repeat(200), "x".repeat(last));
        let most = MAX_STATE_BYTES - state(0).len();
        for (last, is_passed_on) in [(1, true), (most, true), (most + 1, false)] {
            let admitted = admit(0.0, Some(&parent), Some(&state(last))).expect("sampled");
            let passed_on = admitted.own.trace_state().header();
            assert_eq!(passed_on, if is_passed_on { state(last) } else { String::new() }, "{last}");
        }
    }

    #[test]
    fn ratio_decides_without_a_valid_traceparent() {
        for parent in [None, Some(""), Some("00-zz-00f067aa0ba902b7-01"), Some("00-0-0-01")] {
            let admitted = admit(1.0, parent, None).expect("all are sampled");
            assert_eq!(admitted.parent, SpanId::INVALID);
            assert_ne!(admitted.own.trace_id(), TraceId::INVALID);
            assert!(admit(0.0, parent, None).is_none(), "none is sampled");
        }
        let half = (0..1000).filter(|_| admit(0.5, None, None).is_some()).count();
        assert!((350..650).contains(&half), "{half} of 1000");
    }
}
