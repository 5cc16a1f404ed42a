//! Modules of Encke's server that do not depend on channels or sessions.
//!
//! - Memory that threads share: [`locks`], [`arena`].
//! - Interfaces to the system: [`entropy`], [`executor`], [`process`].
//! - Connections: [`parking`], [`tls`], and [`outbound`] requests.
//! - Observation: [`metrics`], [`trace`].
//! - Fairness between users: [`quota`].
//! - Hints in errors: [`nearest`].

#![allow(
    clippy::len_without_is_empty,
    clippy::new_without_default,
    reason = "only the server uses this crate"
)]
#![cfg_attr(test, allow(clippy::disallowed_types, reason = "locks of tests need no order"))]

pub mod arena;
pub mod entropy;
pub mod executor;
#[cfg(feature = "simulation")]
pub mod fail_point;
pub mod locks;
pub mod metrics;
pub mod nearest;
pub mod outbound;
pub mod parking;
pub mod process;
pub mod quota;
pub mod tls;
pub mod trace;
