//! What clients ask for, and the replies.

use std::task::{Context as TaskContext, Poll};

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::json::{Command, CommandError, Request, ServerMessage, parse_command};
use encke_core::session::ConnectionInput;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::exchange::{Exchange, Outcome};
use super::refused::Refused;
use super::{Attachment, Context};
use crate::admission::{CommandRate, Pace};
use crate::engine::Answer;
use crate::session::Backlog;

/// Where replies are written, in the form of the transport.
pub(crate) trait Replies {
    fn write(&mut self, message: &ServerMessage<'_>);
}

/// Carries out the commands of one connection, one after the other and as fast as its client may give them.
#[derive(Debug)]
pub(crate) struct Commands {
    rate: CommandRate,
    /// The command whose outcome an engine has not answered yet. Nothing more is read from the client meanwhile.
    waiting: Option<Box<Waiting>>,
}

/// A command whose outcome comes later.
struct Waiting {
    /// What its reply is to echo.
    id: Option<u64>,
    outcome: BoxFuture<'static, Outcome>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Commands {
    pub(crate) fn new(context: &Context, now: Timestamp) -> Self {
        Self { rate: CommandRate::new(context.settings.commands_per_second, now), waiting: None }
    }

    /// Carries out what a text asks for. Replies are written to `out`; `backlog` notes whether there is more to send now.
    pub(crate) fn received(
        &mut self,
        text: &str,
        attachment: &Attachment,
        backlog: &mut Backlog,
        out: &mut impl Replies,
    ) {
        let mut exchange = Exchange { attachment, backlog, out };
        // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
        match parse_command(text) {
            Ok(Request { id, command: Command::Ack { seq } }) => {
                exchange.acknowledge(ConnectionInput::Ack { seq }, id);
            }
            Ok(Request { id, command: Command::Pong { seq } }) => {
                exchange.acknowledge(ConnectionInput::PongMessage { seq }, id);
            }
            request => self.command(request, &mut exchange),
        }
    }

    /// Replies to the command that waits for an engine, once its answer has come. `None` if no command waits.
    pub(crate) fn poll_waiting(
        &mut self,
        task: &mut TaskContext<'_>,
        attachment: &Attachment,
        backlog: &mut Backlog,
        out: &mut impl Replies,
    ) -> Option<Poll<()>> {
        let waiting = self.waiting.as_mut()?;
        let Poll::Ready(outcome) = waiting.outcome.poll_unpin(task) else { return Some(Poll::Pending) };
        let id = waiting.id;
        self.waiting = None;
        Exchange { attachment, backlog, out }.finish(id, outcome);
        Some(Poll::Ready(()))
    }

    fn command(
        &mut self,
        request: Result<Request<'_>, CommandError>,
        exchange: &mut Exchange<'_, impl Replies>,
    ) {
        if !exchange.attachment.tell(ConnectionInput::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return;
        }
        let id = match &request {
            Ok(request) => request.id,
            Err(error) => error.id,
        };
        let context = &exchange.attachment.context;
        match self.rate.command(context.timeouts.clock().now()) {
            Pace::Fine => match request {
                Ok(Request { command, .. }) => self.carry_out(id, command, exchange),
                Err(error) => exchange.finish(id, Err(error.into())),
            },
            Pace::TooFast => exchange.finish(id, Err(Refused::rate(context))),
            Pace::Flood => _ = exchange.attachment.tell(ConnectionInput::Close(CloseReason::Limit)),
        }
    }

    fn carry_out(
        &mut self,
        id: Option<u64>,
        command: Command<'_>,
        exchange: &mut Exchange<'_, impl Replies>,
    ) {
        if command == Command::Close {
            return exchange.close(id);
        }
        match exchange.carry_out(command) {
            Answer::Ready(outcome) => exchange.finish(id, outcome),
            Answer::Later(outcome) => self.waiting = Some(Box::new(Waiting { id, outcome })),
        }
    }
}

/// Tells the session that the client has received something, which may make room for more.
pub(crate) fn acknowledge(attachment: &Attachment, backlog: &mut Backlog, input: ConnectionInput) -> bool {
    backlog.more |= backlog.until_acknowledged;
    attachment.tell(input)
}
