//! The message broker of Encke's server: channels with their logs and subscribers, and the engines that own
//! the logs.

#![allow(
    clippy::len_without_is_empty,
    clippy::new_without_default,
    reason = "only the server uses this crate"
)]
#![cfg_attr(test, allow(clippy::disallowed_types, reason = "locks of tests need no order"))]

pub mod channel;
pub mod engine;
