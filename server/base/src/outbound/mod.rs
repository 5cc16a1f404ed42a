//! HTTP requests from the server to the operator's systems.
//!
//! hyper's client pools the connections. It uses HTTP/1.1, and rustls for TLS. Every deadline is on the
//! wheel. Redirects are not followed: the operator has configured an address, and a signed request must not
//! go anywhere else.

mod backoff;
mod client;
mod excerpt;
mod pending;
mod signature;
#[cfg(feature = "simulation")]
mod simulated;
mod target;

pub use backoff::Backoff;
pub use client::{OutboundClient, OutboundError, OutboundResponse, Trust};
pub use excerpt::excerpt;
pub use pending::Pending;
pub use signature::{Secret, headers};
#[cfg(feature = "simulation")]
pub use simulated::{SimulatedResponse, SimulatedTarget};
pub use target::Target;
