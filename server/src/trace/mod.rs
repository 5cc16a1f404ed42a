//! OpenTelemetry traces of publishes through the admin API, from the request to the last write to a socket of
//! this server.
//!
//! ```text
//!  POST /api/publish  ───────────┐          the request; part of the caller's trace if it has a `traceparent`
//!    append             ──────┐             from the call to the engine until its response
//!    fan out                 ────────┐      until all waiting subscribers have been notified
//!    deliver                 ────────────┐  from the append to the last write
//! ```
//!
//! A log remembers which of its messages are traced ([`TracedMessages`]). A connection that takes a traced
//! message also takes a receipt ([`Receipts`]), which accompanies the bytes and is redeemed when the kernel
//! has accepted all of them. A trace ends when all sessions that were attached have received the message, or
//! after a time limit.
//!
//! Tracing requires the feature `otlp`. Without it, the types that other modules use have no size and do
//! nothing.

#[cfg(feature = "otlp")]
mod context;
#[cfg(feature = "otlp")]
mod delivery;
#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(feature = "otlp")]
mod export;
#[cfg(feature = "otlp")]
mod open_deliveries;
#[cfg(feature = "otlp")]
mod progress;
#[cfg(feature = "otlp")]
mod publish;
#[cfg(feature = "otlp")]
mod receipts;
#[cfg(feature = "otlp")]
mod root;
#[cfg(feature = "otlp")]
mod settings;
#[cfg(feature = "otlp")]
mod span;
#[cfg(all(test, feature = "otlp"))]
mod tests;
#[cfg(feature = "otlp")]
mod traced;
#[cfg(feature = "otlp")]
mod tracer;

#[cfg(feature = "otlp")]
pub(crate) use delivery::{Delivery, TracedLog};
#[cfg(not(feature = "otlp"))]
pub(crate) use disabled::{PublishTrace, Receipts, RequestTrace, TracedMessages};
#[cfg(feature = "otlp")]
pub(crate) use publish::PublishTrace;
#[cfg(feature = "otlp")]
pub(crate) use receipts::{Receipts, TakenRun};
#[cfg(feature = "otlp")]
pub(crate) use root::RequestTrace;
#[cfg(feature = "otlp")]
pub(crate) use settings::TraceSettings;
#[cfg(feature = "otlp")]
pub(crate) use traced::TracedMessages;
#[cfg(feature = "otlp")]
pub(crate) use tracer::Tracer;
