//! OpenTelemetry traces of publishes through the admin API.
//!
//! ```text
//!  POST /api/publish  ───────────┐          the request; part of the caller's trace if it has a `traceparent`
//!    append             ──────┐             from the call to the engine until its response
//!    fan out                 ────────┐      from the append until all waiting subscribers have been notified
//! ```
//!
//! The metric `encke_delivery_seconds`, which every build has, measures how long messages take to reach the
//! sockets.
//!
//! Tracing requires the feature `otlp`. Without it, the types that other modules use have no size and do
//! nothing.

mod settings;

pub use settings::TraceSettings;

#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(not(feature = "otlp"))]
pub use disabled::{FanOutTraces, PublishTrace, RequestTrace, Tracer};

#[cfg(feature = "otlp")]
mod context;
#[cfg(feature = "otlp")]
mod export;
#[cfg(feature = "otlp")]
mod fan_out;
#[cfg(feature = "otlp")]
mod publish;
#[cfg(feature = "otlp")]
mod root;
#[cfg(feature = "otlp")]
mod span;
#[cfg(all(test, feature = "otlp"))]
mod tests;
#[cfg(feature = "otlp")]
mod text;
#[cfg(feature = "otlp")]
mod tracer;

#[cfg(feature = "otlp")]
pub use self::{fan_out::FanOutTraces, publish::PublishTrace, root::RequestTrace, tracer::Tracer};
