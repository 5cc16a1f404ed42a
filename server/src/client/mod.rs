//! What a client may ask for and what it is told, on any transport.

mod asked;
mod attachment;
pub(crate) mod bayeux;
mod caller;
mod coming;
mod commands;
mod context;
mod errors;
mod exchange;
mod greeting;
mod retry;
mod speaker;
mod unfinished;
mod waiting;

pub(crate) use attachment::Attachment;
pub(crate) use caller::{Caller, Decision};
pub(crate) use coming::Coming;
pub(crate) use commands::Commands;
pub(crate) use context::{ClientSettings, Context, Rest, Stalled};
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use retry::{goaway, retry_ms};
pub(crate) use speaker::Speaker;
pub(crate) use unfinished::Sender;

#[cfg(test)]
mod slow_engine_tests;
#[cfg(test)]
pub(crate) mod test_context;
