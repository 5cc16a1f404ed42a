use std::time::Duration;

use encke_core::dialect::{Dialect, TextSink};

use super::refresh::refresh;
use super::{CommandContext, CommandHandler};
use crate::session::ClientInput;

/// A poll received as a command on the session's connection.
pub(super) struct HoldRequest<'a, I> {
    pub(super) id: Option<I>,
    /// Maximum hold time, if the client specifies one.
    pub(super) hold: Option<Duration>,
    /// Seq of the last message received, if the client acknowledges messages.
    pub(super) seq: Option<u64>,
    /// Token that replaces the client's current one.
    pub(super) token: Option<&'a str>,
}

/// Handles a poll. The connection answers it later, when the session requests the answer.
pub(super) fn hold<D: Dialect>(
    HoldRequest { id, hold, seq, token }: HoldRequest<'_, D::RequestId>,
    handler: &mut CommandHandler<'_, D, impl TextSink>,
) {
    let CommandContext { session, services, .. } = handler.context;
    if seq.is_some_and(|seq| seq > session.seq()) {
        return handler.dialect.refuse_hold(id, handler.out);
    }
    if let Some(Err(error)) = token.map(|token| refresh(token, handler)) {
        return handler.respond(id, Err(error));
    }
    // If there is a `seq`, lost messages are sent again. If not, everything before the last answer has
    // arrived, so there may be room for more.
    handler.backlog.has_more |= seq.is_some();
    handler.backlog.acknowledged();
    handler.dialect.hold(id, seq, handler.out);
    handler.context.apply(ClientInput::Hold { hold: services.poll_hold(hold, session), seq });
}
