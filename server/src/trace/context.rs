//! Whose trace a request is in, and whether that is recorded.

use hyper::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

use crate::entropy::Entropy;

/// Decides for each request.
#[derive(Debug)]
pub(super) struct Admission {
    propagator: TraceContextPropagator,
    sampler: Sampler,
    entropy: Entropy,
}

/// The context of a request that is recorded.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) own: SpanContext,
    /// Of the caller, or invalid.
    pub(super) parent: SpanId,
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

impl Admission {
    /// Of the requests without a `traceparent`, `sample` are recorded: from 0 to 1.
    pub(super) fn new(sample: f64, entropy: Entropy) -> Self {
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(sample)));
        Self { propagator: TraceContextPropagator::new(), sampler, entropy }
    }

    /// A caller that has decided, decides for its whole trace. Nothing, if this request is not to be recorded.
    pub(super) fn admit(&self, name: &str, headers: &HeaderMap) -> Option<Admitted> {
        let context = self.propagator.extract(&Headers(headers));
        let caller = context.span().span_context().clone();
        let trace =
            if caller.is_valid() { caller.trace_id() } else { TraceId::from_bytes(self.entropy.bytes()) };
        let SamplingResult { decision, trace_state, .. } =
            self.sampler.should_sample(Some(&context), trace, name, &SpanKind::Server, &[], &[]);
        if decision != SamplingDecision::RecordAndSample {
            return None;
        }
        let own = SpanContext::new(trace, self.span_id(), TraceFlags::SAMPLED, false, trace_state);
        Some(Admitted { own, parent: caller.span_id() })
    }

    /// One more span of the same trace.
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

    fn admit(sample: f64, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Admitted> {
        let mut headers = HeaderMap::new();
        for (name, value) in [("traceparent", traceparent), ("tracestate", tracestate)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        Admission::new(sample, Entropy::system()).admit("POST /api/publish", &headers)
    }

    #[test]
    fn a_caller_decides_for_its_trace() {
        for sample in [0.0, 1.0] {
            let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
            let admitted = admit(sample, Some(&parent), Some("vendor=1,other=2")).expect("sampled");
            assert_eq!(admitted.own.trace_id().to_string(), TRACE);
            assert_eq!(admitted.parent.to_string(), "00f067aa0ba902b7");
            assert_ne!(admitted.own.span_id(), admitted.parent);
            assert_eq!(admitted.own.trace_state().header(), "vendor=1,other=2");
            let parent = format!("00-{TRACE}-00f067aa0ba902b7-00");
            assert!(admit(sample, Some(&parent), None).is_none(), "it is not to be recorded");
        }
    }

    #[test]
    fn without_a_caller_that_is_understood_the_ratio_decides() {
        for parent in [None, Some(""), Some("00-zz-00f067aa0ba902b7-01"), Some("00-0-0-01")] {
            let admitted = admit(1.0, parent, None).expect("all are sampled");
            assert_eq!(admitted.parent, SpanId::INVALID);
            assert_ne!(admitted.own.trace_id(), TraceId::INVALID);
            assert!(admit(0.0, parent, None).is_none(), "none is");
        }
        let half = (0..1000).filter(|_| admit(0.5, None, None).is_some()).count();
        assert!((350..650).contains(&half), "{half} of 1000");
    }
}
