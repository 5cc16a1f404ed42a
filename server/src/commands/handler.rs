//! The loop that carries out commands, and writes their responses in order.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::{Command, CommandError, CommandRequest, Dialect, Response, Success, TextSink};

use super::call::call;
use super::errors::{too_fast, user_too_fast};
use super::hold::{HoldRequest, hold};
use super::pending::{CommandKind, PendingCommands};
use super::presence::presence;
use super::publish::publish;
use super::refresh::refresh;
use super::service::service;
use super::subscribe::subscribe;
use super::subscribe_all::subscribe_all;
use super::unsubscribe::unsubscribe;
use super::{CommandContext, CommandOutcome};
use crate::admission::RateDecision;
use crate::engine::EngineResponse;
use crate::session::{Backlog, ClientInput};

/// Commands that arrive on one connection or in one request. Enforces the command rate of the session.
pub(crate) struct Commands<D: Dialect> {
    /// Commands without a response so far. Boxed, because most connections never have any.
    pending: Option<Box<PendingCommands<D::RequestId>>>,
}

impl<D: Dialect> fmt::Debug for Commands<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.pending.as_ref().map_or(0, |pending| pending.len());
        f.debug_struct("Commands").field("pending", &pending).finish()
    }
}

impl<D: Dialect> Default for Commands<D> {
    fn default() -> Self {
        Self { pending: None }
    }
}

/// Context of the commands on a connection, and the destination of their responses.
pub(crate) struct CommandHandler<'a, D, T> {
    pub(crate) context: CommandContext<'a>,
    /// Whether there is more to send now.
    pub(crate) backlog: &'a mut Backlog,
    pub(crate) dialect: &'a mut D,
    pub(crate) out: &'a mut T,
}

impl<D: Dialect, T: TextSink> CommandHandler<'_, D, T> {
    pub(super) fn respond(&mut self, id: Option<D::RequestId>, outcome: CommandOutcome) {
        // Send the messages of a new subscription after the response.
        self.backlog.has_more |= matches!(outcome, Ok(Success::Subscribed { .. } | Success::SubscribedAll));
        self.dialect.respond(&[Response { id, result: outcome }], self.out);
    }

    /// Carries out a command other than `close`.
    fn carry_out(&mut self, command: Command<'_>) -> EngineResponse<CommandOutcome> {
        let context = self.context;
        let started = match command {
            Command::Subscribe { channel, begin } => subscribe(context, &channel, &begin),
            Command::SubscribeAll { channels } => subscribe_all(context, &channels),
            Command::Unsubscribe { channel } => unsubscribe(context, [&*channel]),
            Command::UnsubscribeAll { channels } => {
                unsubscribe(context, channels.iter().map(|channel| &**channel))
            }
            Command::Publish { channel, data, key } => publish(context, &channel, &data, key.as_ref()),
            Command::Service { channel, data } => service(context, &channel, &data),
            Command::Call { method, data } => call(context, &method, &data),
            Command::Presence { channel } => presence(context, &channel),
            Command::Refresh { token } => return EngineResponse::Ready(refresh(&token, self)),
            Command::Ack { .. }
            | Command::Pong { .. }
            | Command::Hold { .. }
            | Command::Noop
            | Command::Violation
            | Command::Close => return EngineResponse::Ready(Ok(Success::Done)),
        };
        started.unwrap_or_else(|error| EngineResponse::Ready(Err(error)))
    }

    fn close(&mut self, id: Option<D::RequestId>) {
        // Respond before the session ends, while there is still a connection.
        self.respond(id, Ok(Success::Done));
        self.context.apply(ClientInput::Close(CloseReason::Client));
    }
}

/// Carries out requests that arrive separately from the session's connection, and waits for their responses.
/// Returns whether the session accepted all of them.
pub(crate) async fn carry_out<'r, D: Dialect>(
    requests: impl IntoIterator<Item = CommandRequest<'r, D::RequestId>>,
    context: CommandContext<'_>,
    out: &mut impl TextSink,
) -> bool {
    let (mut commands, mut backlog, mut dialect) =
        (Commands::<D>::default(), Backlog::default(), D::default());
    let mut handler = CommandHandler { context, backlog: &mut backlog, dialect: &mut dialect, out };
    let is_accepted = commands.handle_requests(requests, &mut handler);
    poll_fn(|task| {
        while let Some(pending) = commands.poll_pending(task, &mut handler) {
            if pending.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    })
    .await;
    is_accepted
}

impl<D: Dialect> Commands<D> {
    /// Whether any command is without a response so far.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Handles the requests in a text. Returns whether the session accepted all of them.
    pub(crate) fn handle_text(
        &mut self,
        text: &str,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> bool {
        let requests = handler.dialect.read(text);
        self.handle_requests(requests, handler)
    }

    /// Handles requests that have arrived together. Each request after the first counts as an additional
    /// frame.
    fn handle_requests<'r>(
        &mut self,
        requests: impl IntoIterator<Item = CommandRequest<'r, D::RequestId>>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> bool {
        let mut is_accepted = true;
        for (before, request) in requests.into_iter().enumerate() {
            if before > 0 {
                handler.context.services.count_frames(handler.context.session, 1);
            }
            is_accepted &= self.handle_request(request, handler);
        }
        is_accepted
    }

    /// Handles one request. Returns whether the session accepted it. If not, nothing is done and there is no
    /// response.
    fn handle_request(
        &mut self,
        CommandRequest { id, command }: CommandRequest<'_, D::RequestId>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> bool {
        // Do not count acknowledgements and pongs as commands: they do not show that a user is active, and
        // cost next to nothing.
        match command {
            Ok(Command::Ack { seq }) => self.acknowledge(ClientInput::Ack { seq }, id, handler),
            Ok(Command::Pong { seq }) => self.acknowledge(ClientInput::Pong { seq }, id, handler),
            Ok(Command::Hold { hold: duration, seq, token }) => {
                hold(HoldRequest { id, hold: duration, seq, token: token.as_deref() }, handler);
                true
            }
            Ok(Command::Noop) => {
                self.respond_in_turn(id, Ok(()), handler);
                true
            }
            command => self.command(id, command, handler),
        }
    }

    /// Responds to the first pending command once its outcome is known. `None` if no command is pending.
    pub(crate) fn poll_pending(
        &mut self,
        task: &mut TaskContext<'_>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> Option<Poll<()>> {
        let pending = self.pending.as_mut()?;
        let Poll::Ready(first) = pending.poll_first(task) else { return Some(Poll::Pending) };
        let is_idle = !pending.has_in_flight();
        if let Some((id, outcome)) = first {
            handler.respond(id, outcome);
        }
        if is_idle && let Some(pending) = self.pending.take() {
            for CommandRequest { id, command } in pending.into_deferred() {
                match command {
                    Ok(command) => self.start(id, command, handler),
                    Err(error) => self.respond_in_turn(id, Err(error), handler),
                }
            }
        }
        Some(Poll::Ready(()))
    }

    /// Whether more may be read while commands are pending.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.as_ref().is_none_or(|pending| pending.has_room())
    }

    /// Handles an acknowledgement immediately, regardless of pending commands. An acknowledgement that ends
    /// the session gets no response; the Close frame takes its place.
    fn acknowledge(
        &mut self,
        input: ClientInput,
        id: Option<D::RequestId>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> bool {
        handler.backlog.acknowledged();
        let is_accepted = handler.context.apply(input);
        if is_accepted {
            self.respond_in_turn(id, Ok(()), handler);
        }
        is_accepted
    }

    fn command(
        &mut self,
        id: Option<D::RequestId>,
        command: Result<Command<'_>, CommandError>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) -> bool {
        if !handler.context.apply(ClientInput::Command) {
            // The session has just released this connection, so its commands are no longer accepted.
            return false;
        }
        let CommandContext { session, services, .. } = handler.context;
        let now = services.timeouts.clock().now();
        match session.commands.count_command(services.settings.commands_per_second, now) {
            RateDecision::Allow if !is_within_user_rate(handler.context, now) => {
                self.respond_in_turn(id, Err(user_too_fast(services)), handler);
            }
            RateDecision::Allow => match command {
                Ok(command) => self.start(id, command, handler),
                Err(error) => self.respond_in_turn(id, Err(error), handler),
            },
            RateDecision::TooFast => self.respond_in_turn(id, Err(too_fast(services)), handler),
            RateDecision::Flood => _ = handler.context.apply(ClientInput::Close(CloseReason::Limit)),
        }
        true
    }

    /// Carries out a command, or defers it until the commands before it have finished.
    fn start(
        &mut self,
        id: Option<D::RequestId>,
        command: Command<'_>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) {
        let kind = CommandKind::of(&command);
        if let Some(pending) = &mut self.pending
            && !pending.admits(kind)
        {
            return pending.defer(id, Ok(command.into_owned()));
        }
        match command {
            Command::Close => handler.close(id),
            Command::Violation => _ = handler.context.apply(ClientInput::Close(CloseReason::ProtocolError)),
            command => match (handler.carry_out(command), &mut self.pending) {
                (EngineResponse::Ready(outcome), None) => handler.respond(id, outcome),
                (response, pending) => {
                    pending
                        .get_or_insert_with(|| Box::new(PendingCommands::new(kind)))
                        .add_started(id, response);
                }
            },
        }
    }

    /// Responds in order to a command that was carried out or refused immediately.
    fn respond_in_turn(
        &mut self,
        id: Option<D::RequestId>,
        outcome: Result<(), CommandError>,
        handler: &mut CommandHandler<'_, D, impl TextSink>,
    ) {
        match &mut self.pending {
            Some(pending) => pending.add_finished(id, outcome),
            None => handler.respond(id, outcome.map(|()| Success::Done)),
        }
    }
}

/// Whether all sessions of the client's user together are within the user's rate. Sessions of anonymous
/// clients have only their own rate.
fn is_within_user_rate(context: CommandContext<'_>, now: Timestamp) -> bool {
    let identity = context.session.identity();
    identity.user().is_none_or(|user| context.services.limits.user_rates.try_count(user, now))
}
