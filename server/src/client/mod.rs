//! Commands from clients and the responses to them, independent of the transport.

mod attachment;
mod authenticate;
mod backend_hooks;
pub(crate) mod bayeux;
mod caller;
mod command_context;
mod command_handler;
mod commands;
mod errors;
mod greeting;
mod partial_messages;
mod pending_commands;
mod retry;
mod services;

pub(crate) use attachment::Attachment;
pub(crate) use authenticate::ConnectAttempt;
pub(crate) use caller::{AuthDecision, Caller};
pub(crate) use command_context::CommandContext;
pub(crate) use commands::Commands;
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use partial_messages::PartialMessageSender;
pub(crate) use retry::{goaway, retry_ms};
pub(crate) use services::{ClientSettings, ConnectionParking, Services, StalledComponent};

#[cfg(test)]
mod delivery_time_tests;
#[cfg(test)]
mod slow_engine_tests;
#[cfg(test)]
pub(crate) mod test_services;
