//! Commands and responses of clients, independent of the transport.

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
pub(crate) use caller::{AuthDecision, Caller};
pub(crate) use coming::ConnectAttempt;
pub(crate) use commands::Commands;
pub(crate) use context::{ClientSettings, ConnectionParking, Services, StalledComponent};
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use retry::{goaway, retry_ms};
pub(crate) use speaker::CommandContext;
pub(crate) use unfinished::PartialMessageSender;

#[cfg(test)]
mod slow_engine_tests;
#[cfg(test)]
pub(crate) mod test_context;
