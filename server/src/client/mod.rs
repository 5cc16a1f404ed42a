//! Commands and responses of clients, independent of the transport.

mod backend_hooks;
mod attachment;
pub(crate) mod bayeux;
mod caller;
mod authenticate;
mod commands;
mod services;
mod errors;
mod command_handler;
mod greeting;
mod retry;
mod command_context;
mod partial_messages;
mod pending_commands;

pub(crate) use attachment::Attachment;
pub(crate) use caller::{AuthDecision, Caller};
pub(crate) use authenticate::ConnectAttempt;
pub(crate) use commands::Commands;
pub(crate) use services::{ClientSettings, ConnectionParking, Services, StalledComponent};
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use retry::{goaway, retry_ms};
pub(crate) use command_context::CommandContext;
pub(crate) use partial_messages::PartialMessageSender;

#[cfg(test)]
mod slow_engine_tests;
#[cfg(test)]
pub(crate) mod test_services;
