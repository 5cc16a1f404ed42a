//! Traces, as OpenTelemetry has them: what becomes of a publish by the admin API, up to its last write to a socket of this server.
//!
//! ```text
//!  POST /api/publish  ───────────┐          the request; in the trace of its `traceparent`, if it has one
//!    append             ──────┐             the engine is asked, and answers
//!    fan out                 ────────┐      those that follow the channel are woken
//!    deliver                 ────────────┐  from the append to the last write
//! ```
//!
//! A log remembers which of its messages are traced ([`Traced`]). Whoever takes one of them for a connection gets a receipt ([`Receipts`]), which
//! goes along with the bytes and is handed in when the kernel has them all. A trace is over when all that were attached have theirs, or after
//! a while.
//!
//! All of this is there with the feature `otlp` alone. Without, what other rooms have of it has no size and does nothing.

#[cfg(feature = "otlp")]
mod context;
#[cfg(feature = "otlp")]
mod delivery;
#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod open;
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
pub(crate) use off::{Publish, Receipts, Root, Traced};
#[cfg(feature = "otlp")]
pub(crate) use publish::Publish;
#[cfg(feature = "otlp")]
pub(crate) use receipts::{Receipts, TakenRun};
#[cfg(feature = "otlp")]
pub(crate) use root::Root;
#[cfg(feature = "otlp")]
pub(crate) use settings::TraceSettings;
#[cfg(feature = "otlp")]
pub(crate) use traced::Traced;
#[cfg(feature = "otlp")]
pub(crate) use tracer::Tracer;
