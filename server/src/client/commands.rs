//! What clients ask for, and the responses.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::{Command, CommandError, Dialect, Request, Success, Texts};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Speaker;
use super::errors::{too_fast, user_too_fast};
use super::exchange::{Exchange, Outcome};
use crate::admission::Pace;
use crate::engine::Answer;
use crate::session::{Backlog, Said};

/// Carries out the commands of one connection or request, as fast as its session may give them.
#[derive(Debug)]
pub(crate) struct Commands<D: Dialect> {
    /// Commands that an engine has not answered yet, if there are any: all of one text, for nothing more is read from the
    /// client meanwhile. Boxed, because most connections never wait.
    waiting: Option<Box<WaitingCommands<D>>>,
}

/// Commands whose outcome comes later, in the order in which they came.
struct WaitingCommands<D: Dialect>(VecDeque<(Option<D::RequestId>, BoxFuture<'static, Outcome>)>);

impl<D: Dialect> fmt::Debug for WaitingCommands<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingCommands").field("len", &self.0.len()).finish()
    }
}

impl<D: Dialect> Commands<D> {
    pub(crate) fn new() -> Self {
        Self { waiting: None }
    }

    /// Carries out what a text asks for. Each request but the first counts as one more frame. Responses are written to `out`; `backlog` notes whether there is more to send now.
    pub(crate) fn received(
        &mut self,
        text: &str,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) {
        for (before, request) in dialect.read(text).enumerate() {
            if before > 0 {
                speaker.context.count_frames(speaker.session, 1);
            }
            self.requested(request, speaker, backlog, dialect, out);
        }
    }

    /// Carries out one command.
    pub(crate) fn requested(
        &mut self,
        Request { id, command }: Request<'_, D::RequestId>,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) {
        let mut exchange = Exchange { speaker, backlog, dialect, out };
        // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
        match command {
            Ok(Command::Ack { seq }) => exchange.acknowledge(Said::Ack { seq }, id),
            Ok(Command::Pong { seq }) => exchange.acknowledge(Said::Pong { seq }, id),
            Ok(Command::Hold { hold, seq, token }) => exchange.hold(id, hold, seq, token.as_deref()),
            Ok(Command::Nothing) => exchange.respond(id, Ok(Success::Done)),
            command => self.command(id, command, &mut exchange),
        }
    }

    /// Responds to a command that waits for an engine, once its answer has come. `None` if no command waits.
    pub(crate) fn poll_waiting(
        &mut self,
        task: &mut TaskContext<'_>,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) -> Option<Poll<()>> {
        let commands = &mut self.waiting.as_mut()?.0;
        let (_, outcome) = commands.front_mut()?;
        let Poll::Ready(outcome) = outcome.poll_unpin(task) else { return Some(Poll::Pending) };
        let (id, _) = commands.pop_front()?;
        if commands.is_empty() {
            self.waiting = None;
        }
        Exchange { speaker, backlog, dialect, out }.respond(id, outcome);
        Some(Poll::Ready(()))
    }

    /// Responds to all commands that wait for an engine.
    pub(crate) async fn finish(
        &mut self,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) {
        poll_fn(|task| {
            while let Some(waiting) = self.poll_waiting(task, speaker, backlog, dialect, out) {
                if waiting.is_pending() {
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn command(
        &mut self,
        id: Option<D::RequestId>,
        command: Result<Command<'_>, CommandError>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) {
        if !exchange.speaker.say(Said::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return;
        }
        let Speaker { session, context, .. } = exchange.speaker;
        let now = context.timeouts.clock().now();
        match session.commands.command(context.settings.commands_per_second, now) {
            Pace::Fine if !is_user_in_time(exchange.speaker, now) => {
                exchange.respond(id, Err(user_too_fast(context)));
            }
            Pace::Fine => match command {
                Ok(Command::Close) => exchange.close(id),
                Ok(Command::Violation) => _ = exchange.speaker.say(Said::Close(CloseReason::ProtocolError)),
                Ok(command) => self.carry_out(id, command, exchange),
                Err(error) => exchange.respond(id, Err(error)),
            },
            Pace::TooFast => exchange.respond(id, Err(too_fast(context))),
            Pace::Flood => _ = exchange.speaker.say(Said::Close(CloseReason::Limit)),
        }
    }

    fn carry_out(
        &mut self,
        id: Option<D::RequestId>,
        command: Command<'_>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) {
        match exchange.carry_out(command) {
            Answer::Ready(outcome) => exchange.respond(id, outcome),
            Answer::Later(outcome) => {
                let waiting = self.waiting.get_or_insert_with(|| Box::new(WaitingCommands(VecDeque::new())));
                waiting.0.push_back((id, outcome));
            }
        }
    }
}

/// Whether all sessions of the client's user together are slow enough. Sessions of nobody by name have only their own rate.
fn is_user_in_time(speaker: Speaker<'_>, now: Timestamp) -> bool {
    let identity = speaker.session.identity();
    identity.user().is_none_or(|user| speaker.context.user_rates.take(user, now))
}
