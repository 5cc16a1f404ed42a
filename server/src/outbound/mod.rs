//! HTTP requests that the server makes: to the backend of whoever runs it.
//!
//! hyper's client keeps the connections, over which it speaks HTTP/1.1, with TLS by rustls. Every deadline is on the wheel. Redirects are not
//! followed: the operator has named an address, and a signed request goes nowhere else.

mod backoff;
mod client;
mod pending;
mod signature;
mod target;

pub(crate) use backoff::Backoff;
pub(crate) use client::{Client, OutboundError, Trust};
pub(crate) use pending::Pending;
pub(crate) use signature::{Secret, headers};
pub(crate) use target::Target;
