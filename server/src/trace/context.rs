//! Whose trace a request is in, and whether that is recorded.

use hyper::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

use crate::entropy::Entropy;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

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

/// As much of a `tracestate` as everybody passes on, by its specification. Each span has it, so a longer one is left out.
const LONGEST_STATE: usize = 512;

/// The two headers that say what trace a request is in.
#[derive(Debug, Default)]
struct Headers<'a> {
    parent: Option<&'a str>,
    state: String,
}

impl<'a> Headers<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let all = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
        // One that is there twice is none.
        let mut parents = all(PARENT);
        let parent = parents.next().filter(|_| parents.next().is_none());
        // One that is there twice is a list in two parts.
        let length: usize = all(STATE).map(|part| part.len() + 1).sum();
        let state = if length <= LONGEST_STATE + 1 {
            all(STATE).collect::<Vec<_>>().join(",")
        } else {
            String::new()
        };
        Self { parent, state }
    }
}

impl Extractor for Headers<'_> {
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

impl Admission {
    /// Of the requests without a `traceparent`, `sample` are recorded: from 0 to 1.
    pub(super) fn new(sample: f64, entropy: Entropy) -> Self {
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(sample)));
        Self { propagator: TraceContextPropagator::new(), sampler, entropy }
    }

    /// A caller that has decided, decides for its whole trace. Nothing, if this request is not to be recorded.
    pub(super) fn admit(&self, name: &str, headers: &HeaderMap) -> Option<Admitted> {
        let context = self.propagator.extract(&Headers::of(headers));
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
        let headers = [(PARENT, traceparent), (STATE, tracestate)];
        admit_with(sample, headers.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }

    fn admit_with<'a>(
        sample: f64,
        pairs: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) -> Option<Admitted> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().expect("a header"));
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
    fn two_callers_are_none_and_two_states_are_one() {
        let [one, other] =
            ["00f067aa0ba902b7", "00f067aa0ba902b8"].map(|span| format!("00-{TRACE}-{span}-01"));
        assert!(admit_with(0.0, [(PARENT, &*one), (PARENT, &*other)]).is_none());
        let admitted = admit_with(0.0, [(PARENT, &*one), (STATE, "a=1"), (STATE, "b=2")]).expect("sampled");
        assert_eq!(admitted.own.trace_state().header(), "a=1,b=2");
    }

    #[test]
    fn a_state_is_passed_on_up_to_a_length() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        // A value may have 256 bytes.
        let state =
            |last: usize| format!("a={},b={},c={}", "x".repeat(200), "x".repeat(200), "x".repeat(last));
        let most = LONGEST_STATE - state(0).len();
        for (last, is_passed_on) in [(1, true), (most, true), (most + 1, false)] {
            let admitted = admit(0.0, Some(&parent), Some(&state(last))).expect("sampled");
            let passed_on = admitted.own.trace_state().header();
            assert_eq!(passed_on, if is_passed_on { state(last) } else { String::new() }, "{last}");
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
