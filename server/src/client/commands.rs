//! What clients ask for, and the replies.

use std::task::{Context as TaskContext, Poll};

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Command, CommandError, Dialect, Request, Texts};
use encke_core::session::ConnectionInput;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::exchange::{Exchange, Outcome};
use super::refused::too_fast;
use super::{Attachment, Context};
use crate::admission::{CommandRate, Pace};
use crate::engine::Answer;
use crate::session::Backlog;

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
        dialect: &mut Json,
        out: &mut impl Texts,
    ) {
        // At most one waits, because `json` has one command a text.
        for Request { id, command } in dialect.read(text) {
            let mut exchange = Exchange { attachment, backlog, dialect, out };
            // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
            match command {
                Ok(Command::Ack { seq }) => exchange.acknowledge(ConnectionInput::Ack { seq }, id),
                Ok(Command::Pong { seq }) => exchange.acknowledge(ConnectionInput::PongMessage { seq }, id),
                command => self.command(id, command, &mut exchange),
            }
        }
    }

    /// Replies to the command that waits for an engine, once its answer has come. `None` if no command waits.
    pub(crate) fn poll_waiting(
        &mut self,
        task: &mut TaskContext<'_>,
        attachment: &Attachment,
        backlog: &mut Backlog,
        dialect: &mut Json,
        out: &mut impl Texts,
    ) -> Option<Poll<()>> {
        let waiting = self.waiting.as_mut()?;
        let Poll::Ready(outcome) = waiting.outcome.poll_unpin(task) else { return Some(Poll::Pending) };
        let id = waiting.id;
        self.waiting = None;
        Exchange { attachment, backlog, dialect, out }.finish(id, outcome);
        Some(Poll::Ready(()))
    }

    fn command(
        &mut self,
        id: Option<u64>,
        command: Result<Command<'_>, CommandError>,
        exchange: &mut Exchange<'_, impl Texts>,
    ) {
        if !exchange.attachment.tell(ConnectionInput::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return;
        }
        let context = &exchange.attachment.context;
        match self.rate.command(context.timeouts.clock().now()) {
            Pace::Fine => match command {
                Ok(command) => self.carry_out(id, command, exchange),
                Err(error) => exchange.finish(id, Err(error)),
            },
            Pace::TooFast => exchange.finish(id, Err(too_fast(context))),
            Pace::Flood => _ = exchange.attachment.tell(ConnectionInput::Close(CloseReason::Limit)),
        }
    }

    fn carry_out(&mut self, id: Option<u64>, command: Command<'_>, exchange: &mut Exchange<'_, impl Texts>) {
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
