//! What a client may ask for and what it is told, on any transport.

mod attachment;
mod caller;
mod commands;
mod context;
mod errors;
mod exchange;
mod greeting;
mod retry;

pub(crate) use attachment::Attachment;
pub(crate) use caller::Caller;
pub(crate) use commands::{Commands, acknowledge};
pub(crate) use context::{ClientSettings, Context};
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use retry::{goaway, retry_ms};

#[cfg(test)]
mod slow_engine_tests;
