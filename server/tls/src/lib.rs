//! TLS settings of the server and of its clients: certificates and keys in PEM files, trusted authorities, and
//! the configuration of outbound connections.

mod authorities;
mod client;
mod files;

pub use authorities::authorities;
pub use client::{VERSIONS, trusting, unverified};
pub use files::{PemFile, TlsError, certified_key};
