//! Commands from clients: one loop for all transports and dialects, and a file for each command.

mod call;
mod context;
mod errors;
mod handler;
mod history;
mod pending;
mod permission;
mod presence;
mod publish;
mod refresh;
mod service;
#[cfg(test)]
mod slow_engine_tests;
mod subscribe;
mod subscribe_all;

use encke_core::dialect::{CommandError, Success};

use encke_broker::engine::EngineResponse;

pub(crate) use context::CommandContext;
pub(crate) use handler::{CommandHandler, Commands, carry_out};
pub(crate) use subscribe::subscribe_to;

/// Result of a command.
type CommandOutcome = Result<Success<'static>, CommandError>;

/// A started command, or the error with which it was refused.
type StartedCommand = Result<EngineResponse<CommandOutcome>, CommandError>;
