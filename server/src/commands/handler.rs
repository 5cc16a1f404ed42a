//! The loop that carries out commands, and writes their responses in order.

use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use encke_broker::engine::EngineResponse;
use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::{
    Command, CommandError, CommandRequest, Dialect, Response, StartPosition, Success, TextSink,
};

use super::call::call;
use super::errors::{owner_too_fast, too_fast};
use super::history::history;
use super::pending::{CommandKind, PendingCommands};
use super::presence::presence;
use super::publish::publish;
use super::refresh::refresh;
use super::service::service;
use super::subscribe::{subscribe, unsubscribe};
use super::subscribe_all::subscribe_all;
use super::{CommandContext, CommandOutcome};
use crate::admission::RateDecision;
use crate::client::unsubscribed;
use crate::session::{Backlog, ClientInput};

/// Commands that arrive on one connection or in one request. Enforces the command rate of the session.
pub(crate) struct Commands<D: Dialect> {
    /// Commands without a response so far. Boxed, because most connections never have any.
    pending: Option<Box<PendingCommands<D::RequestId>>>,
}

impl<D: Dialect> Default for Commands<D> {
    fn default() -> Self {
        Self { pending: None }
    }
}

impl<D: Dialect> Commands<D> {
    /// Whether any command is without a response so far.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether more may be read while commands are pending.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.as_ref().is_none_or(|pending| pending.has_room())
    }
}

/// Handles the commands of a connection or of a request.
pub(crate) struct CommandHandler<'a, D: Dialect, T> {
    pub(crate) context: CommandContext<'a>,
    pub(crate) commands: &'a mut Commands<D>,
    /// Whether there is more to send now.
    pub(crate) backlog: &'a mut Backlog,
    pub(crate) dialect: &'a mut D,
    /// Destination of the responses.
    pub(crate) out: T,
}

/// Carries out requests that arrive separately from the session's connection, and waits for their responses.
/// Returns whether the session accepted all of them.
pub(crate) async fn carry_out<'r, D: Dialect>(
    requests: impl IntoIterator<Item = CommandRequest<'r, D::RequestId>>,
    context: CommandContext<'_>,
    out: &mut impl TextSink,
) -> bool {
    let (commands, backlog, dialect) = (&mut Commands::default(), &mut Backlog::default(), &mut D::default());
    let mut handler = CommandHandler { context, commands, backlog, dialect, out };
    let is_accepted = handler.handle_requests(requests);
    poll_fn(|task| {
        while let Some(pending) = handler.poll_pending(task) {
            if pending.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    })
    .await;
    is_accepted
}

impl<D: Dialect, T: TextSink> CommandHandler<'_, D, T> {
    /// Handles the requests in a text. Returns whether the session accepted all of them.
    pub(crate) fn handle_text(&mut self, text: &str) -> bool {
        let requests = self.dialect.read(text);
        self.handle_requests(requests)
    }

    /// Handles requests that have arrived together. Each request after the first counts as an additional
    /// frame.
    fn handle_requests<'r>(
        &mut self,
        requests: impl IntoIterator<Item = CommandRequest<'r, D::RequestId>>,
    ) -> bool {
        let mut is_accepted = true;
        for (before, request) in requests.into_iter().enumerate() {
            if before > 0 {
                self.context.services.count_frames(self.context.session, 1);
            }
            is_accepted &= self.handle_request(request);
        }
        is_accepted
    }

    /// Handles one request. Returns whether the session accepted it. If not, nothing is done and there is no
    /// response.
    fn handle_request(&mut self, CommandRequest { id, command }: CommandRequest<'_, D::RequestId>) -> bool {
        // Do not count acknowledgements and pongs as commands: they do not show that a user is active, and
        // cost next to nothing.
        match command {
            Ok(Command::Ack { seq }) => self.acknowledge(ClientInput::Ack { seq }, id),
            Ok(Command::Pong { seq }) => self.acknowledge(ClientInput::Pong { seq }, id),
            Ok(Command::Hold { hold, seq, token }) => {
                self.hold(id, hold, seq, token.as_deref());
                true
            }
            Ok(Command::Noop) => {
                self.respond_in_turn(id, Ok(()));
                true
            }
            command => self.command(id, command),
        }
    }

    /// Responds to the first pending command once its outcome is known. `None` if no command is pending.
    pub(crate) fn poll_pending(&mut self, task: &mut TaskContext<'_>) -> Option<Poll<()>> {
        let pending = self.commands.pending.as_mut()?;
        let Poll::Ready(first) = pending.poll_first(task) else { return Some(Poll::Pending) };
        let is_idle = pending.in_flight.is_empty();
        if let Some((id, outcome)) = first {
            self.respond(id, outcome);
        }
        if is_idle && let Some(pending) = self.commands.pending.take() {
            for CommandRequest { id, command } in pending.deferred {
                match command {
                    Ok(command) => self.start(id, command),
                    Err(error) => self.respond_in_turn(id, Err(error)),
                }
            }
        }
        Some(Poll::Ready(()))
    }

    /// Handles an acknowledgement immediately, regardless of pending commands. An acknowledgement that ends
    /// the session gets no response; the Close frame takes its place.
    fn acknowledge(&mut self, input: ClientInput, id: Option<D::RequestId>) -> bool {
        self.backlog.acknowledged();
        let is_accepted = self.context.apply(input);
        if is_accepted {
            self.respond_in_turn(id, Ok(()));
        }
        is_accepted
    }

    /// Handles a poll that is received as a command: how long the client wants it to be held, the seq of the
    /// last message received if the client acknowledges messages, and a token that replaces the current one.
    /// The connection answers the poll later, when the session requests the answer.
    fn hold(
        &mut self,
        id: Option<D::RequestId>,
        hold: Option<Duration>,
        seq: Option<u64>,
        token: Option<&str>,
    ) {
        let CommandContext { session, services, .. } = self.context;
        if seq.is_some_and(|seq| seq > session.seq()) {
            return self.dialect.refuse_hold(id, &mut self.out);
        }
        if let Some(Err(error)) = token.map(|token| self.refresh(token)) {
            return self.respond(id, Err(error));
        }
        // If there is a `seq`, lost messages are sent again. If not, everything before the last answer has
        // arrived, so there may be room for more.
        self.backlog.has_more |= seq.is_some();
        self.backlog.acknowledged();
        self.dialect.hold(id, seq, &mut self.out);
        self.context.apply(ClientInput::Hold { hold: services.poll_hold(hold, session), seq });
    }

    fn command(&mut self, id: Option<D::RequestId>, command: Result<Command<'_>, CommandError>) -> bool {
        if !self.context.apply(ClientInput::Command) {
            // The session has just released this connection, so its commands are no longer accepted.
            return false;
        }
        let CommandContext { session, services, .. } = self.context;
        let now = services.timeouts.clock().now();
        let cost = command.as_ref().map_or(1, cost);
        match session.commands.count_command(cost, services.settings.commands_per_second, now) {
            RateDecision::Allow => match check_shared_rate(self.context, cost, now).and(command) {
                Ok(command) => self.start(id, command),
                Err(error) => self.respond_in_turn(id, Err(error)),
            },
            RateDecision::TooFast => self.respond_in_turn(id, Err(too_fast(services))),
            RateDecision::Flood => _ = self.context.apply(ClientInput::Close(CloseReason::Limit)),
        }
        true
    }

    /// Carries out a command, or defers it until the commands before it have finished.
    fn start(&mut self, id: Option<D::RequestId>, command: Command<'_>) {
        let kind = CommandKind::of(&command);
        if let Some(pending) = &mut self.commands.pending
            && !pending.admits(kind)
        {
            return pending.defer(id, Ok(command.into_owned()));
        }
        match command {
            Command::Close => {
                // Respond before the session ends, while there is still a connection.
                self.respond(id, Ok(Success::Done));
                self.context.apply(ClientInput::Close(CloseReason::Client));
            }
            Command::Violation => _ = self.context.apply(ClientInput::Close(CloseReason::ProtocolError)),
            command => match (self.carry_out(command), &mut self.commands.pending) {
                (EngineResponse::Ready(outcome), None) => self.respond(id, outcome),
                (response, pending) => {
                    pending
                        .get_or_insert_with(|| Box::new(PendingCommands::new(kind)))
                        .add_started(id, response);
                }
            },
        }
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
            Command::History { channel, page } => history(context, &channel, page),
            Command::Refresh { token } => return EngineResponse::Ready(self.refresh(&token)),
            Command::Ack { .. }
            | Command::Pong { .. }
            | Command::Hold { .. }
            | Command::Noop
            | Command::Violation
            | Command::Close => return EngineResponse::Ready(Ok(Success::Done)),
        };
        started.unwrap_or_else(|error| EngineResponse::Ready(Err(error)))
    }

    /// Replaces the client's token, and reports the channels that the new token does not allow.
    fn refresh(&mut self, token: &str) -> CommandOutcome {
        for channel in &refresh(self.context, token)? {
            self.dialect.notify(&unsubscribed(channel, "forbidden"), &mut self.out);
        }
        Ok(Success::Done)
    }

    fn respond(&mut self, id: Option<D::RequestId>, outcome: CommandOutcome) {
        // Send the messages of a new subscription after the response.
        self.backlog.has_more |= matches!(outcome, Ok(Success::Subscribed { .. } | Success::SubscribedAll));
        self.dialect.respond(&[Response { id, result: outcome }], &mut self.out);
    }

    /// Responds in order to a command that was carried out or refused immediately.
    fn respond_in_turn(&mut self, id: Option<D::RequestId>, outcome: Result<(), CommandError>) {
        match &mut self.commands.pending {
            Some(pending) => pending.add_finished(id, outcome),
            None => self.respond(id, outcome.map(|()| Success::Done)),
        }
    }
}

/// Checks the rate of all sessions of the client's user, or of all anonymous sessions of its address.
fn check_shared_rate(context: CommandContext<'_>, cost: u32, now: Timestamp) -> Result<(), CommandError> {
    let CommandContext { session, services, source } = context;
    let identity = session.identity();
    let user = identity.user();
    if services.limits.try_count_command(user, source.address(), cost, now) {
        return Ok(());
    }
    Err(owner_too_fast(services, user.is_none()))
}

/// Maximum cost of a command: a client may ask for more messages than a channel has.
const MAX_COST: u32 = 10;

/// Returns how many cheap commands a command counts as. Listing subscribers and reading a history cost more
/// than sending the command.
fn cost(command: &Command<'_>) -> u32 {
    match command {
        Command::Presence { .. } => 5,
        Command::Subscribe { begin: StartPosition::Newest(messages), .. } => cost_of_reading(*messages),
        Command::History { page, .. } => cost_of_reading(page.limit as u64),
        _ => 1,
    }
}

/// Returns the cost of reading this many messages.
fn cost_of_reading(messages: u64) -> u32 {
    u32::try_from(messages / 64).map_or(MAX_COST, |more| more.saturating_add(2).min(MAX_COST))
}

#[cfg(test)]
mod tests {
    use encke_core::dialect::{HistoryPage, HistoryRange};

    use super::*;

    #[test]
    fn a_history_counts_by_the_messages_that_it_asks_for() {
        for (limit, expected) in [(1, 2), (50, 2), (64, 3), (256, 6)] {
            let page = HistoryPage { range: HistoryRange::Newest, epoch: None, limit };
            assert_eq!(cost(&Command::History { channel: "a".into(), page }), expected, "{limit}");
        }
    }

    #[test]
    fn a_subscribe_counts_by_the_messages_that_it_asks_for() {
        for (messages, expected) in
            [(1, 2), (63, 2), (64, 3), (256, 6), (512, 10), (64 * u64::from(u32::MAX), 10), (u64::MAX, 10)]
        {
            let begin = StartPosition::Newest(messages);
            assert_eq!(cost(&Command::Subscribe { channel: "a".into(), begin }), expected, "{messages}");
        }
        assert_eq!(cost(&Command::Subscribe { channel: "a".into(), begin: StartPosition::Now }), 1);
    }
}
