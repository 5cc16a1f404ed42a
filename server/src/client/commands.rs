//! What clients ask for, and the responses.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::{Command, CommandError, Dialect, Request, Success, Texts};

use super::Speaker;
use super::errors::{too_fast, user_too_fast};
use super::exchange::Exchange;
use super::waiting::{Kind, Waiting};
use crate::admission::Pace;
use crate::engine::Answer;
use crate::session::{Backlog, Said};

/// Carries out the commands of one connection or request, as fast as its session may give them.
pub(crate) struct Commands<D: Dialect> {
    /// Commands without responses, if there are any. Boxed, because most connections never wait.
    waiting: Option<Box<Waiting<D::RequestId>>>,
}

impl<D: Dialect> fmt::Debug for Commands<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.len());
        f.debug_struct("Commands").field("waiting", &waiting).finish()
    }
}

impl<D: Dialect> Commands<D> {
    pub(crate) fn new() -> Self {
        Self { waiting: None }
    }

    /// Whether any wait for their responses.
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Carries out what a text asks for. Each request but the first counts as one more frame. Responses are written to `out`; `backlog` notes whether there is more to send now.
    /// Returns whether the session has heard all of it.
    pub(crate) fn received(
        &mut self,
        text: &str,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) -> bool {
        let mut is_heard = true;
        for (before, request) in dialect.read(text).enumerate() {
            if before > 0 {
                speaker.context.count_frames(speaker.session, 1);
            }
            is_heard &= self.requested(request, speaker, backlog, dialect, out);
        }
        is_heard
    }

    /// Carries out one command. Returns whether the session has heard it: where it has not, it has no response, and nothing was done.
    pub(crate) fn requested(
        &mut self,
        Request { id, command }: Request<'_, D::RequestId>,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) -> bool {
        let mut exchange = Exchange { speaker, backlog, dialect, out };
        // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
        match command {
            Ok(Command::Ack { seq }) => self.acknowledge(Said::Ack { seq }, id, &mut exchange),
            Ok(Command::Pong { seq }) => self.acknowledge(Said::Pong { seq }, id, &mut exchange),
            Ok(Command::Hold { hold, seq, token }) => {
                exchange.hold(id, hold, seq, token.as_deref());
                true
            }
            Ok(Command::Nothing) => {
                self.done(id, Ok(()), &mut exchange);
                true
            }
            command => self.command(id, command, &mut exchange),
        }
    }

    /// Responds to the first command that waits, once it may. `None` if no command waits.
    pub(crate) fn poll_waiting(
        &mut self,
        task: &mut TaskContext<'_>,
        speaker: Speaker<'_>,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) -> Option<Poll<()>> {
        let waiting = self.waiting.as_mut()?;
        let Poll::Ready(first) = waiting.poll_first(task) else { return Some(Poll::Pending) };
        let is_over = !waiting.is_anything_in_flight();
        let mut exchange = Exchange { speaker, backlog, dialect, out };
        if let Some((id, outcome)) = first {
            exchange.respond(id, outcome);
        }
        if is_over && let Some(waiting) = self.waiting.take() {
            for Request { id, command } in waiting.into_deferred() {
                match command {
                    Ok(command) => self.begin(id, command, &mut exchange),
                    Err(error) => self.done(id, Err(error), &mut exchange),
                }
            }
        }
        Some(Poll::Ready(()))
    }

    /// Whether more may be read while commands wait.
    pub(crate) fn have_room(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.has_room())
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

    /// It is heard at once, whatever waits. An acknowledgement that ends the session gets no response; the Close frame says it.
    fn acknowledge(
        &mut self,
        said: Said,
        id: Option<D::RequestId>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) -> bool {
        exchange.backlog.acknowledged();
        let is_heard = exchange.speaker.say(said);
        if is_heard {
            self.done(id, Ok(()), exchange);
        }
        is_heard
    }

    fn command(
        &mut self,
        id: Option<D::RequestId>,
        command: Result<Command<'_>, CommandError>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) -> bool {
        if !exchange.speaker.say(Said::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return false;
        }
        let Speaker { session, context, .. } = exchange.speaker;
        let now = context.timeouts.clock().now();
        match session.commands.command(context.settings.commands_per_second, now) {
            Pace::Fine if !is_user_in_time(exchange.speaker, now) => {
                self.done(id, Err(user_too_fast(context)), exchange);
            }
            Pace::Fine => match command {
                Ok(command) => self.begin(id, command, exchange),
                Err(error) => self.done(id, Err(error), exchange),
            },
            Pace::TooFast => self.done(id, Err(too_fast(context)), exchange),
            Pace::Flood => _ = exchange.speaker.say(Said::Close(CloseReason::Limit)),
        }
        true
    }

    /// Carries a command out, or has it wait for those before it.
    fn begin(
        &mut self,
        id: Option<D::RequestId>,
        command: Command<'_>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) {
        let kind = Kind::of(&command);
        if let Some(waiting) = &mut self.waiting
            && !waiting.admits(kind)
        {
            return waiting.defer(id, Ok(command.into_owned()));
        }
        match command {
            Command::Close => exchange.close(id),
            Command::Violation => _ = exchange.speaker.say(Said::Close(CloseReason::ProtocolError)),
            command => match (exchange.carry_out(command), &mut self.waiting) {
                (Answer::Ready(outcome), None) => exchange.respond(id, outcome),
                (answer, waiting) => {
                    waiting.get_or_insert_with(|| Box::new(Waiting::new(kind))).began(id, answer);
                }
            },
        }
    }

    /// The response of what was done, or refused, at once comes when it is its turn.
    fn done(
        &mut self,
        id: Option<D::RequestId>,
        outcome: Result<(), CommandError>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) {
        match &mut self.waiting {
            Some(waiting) => waiting.done(id, outcome),
            None => exchange.respond(id, outcome.map(|()| Success::Done)),
        }
    }
}

/// Whether all sessions of the client's user together are slow enough. Sessions of nobody by name have only their own rate.
fn is_user_in_time(speaker: Speaker<'_>, now: Timestamp) -> bool {
    let identity = speaker.session.identity();
    identity.user().is_none_or(|user| speaker.context.user_rates.take(user, now))
}
