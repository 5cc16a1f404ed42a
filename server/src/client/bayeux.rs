//! What clients of Bayeux are told of how to go on.

use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{Advice, Reconnect, Reply};

use super::{Attachment, Context, retry_ms};
use crate::session::SessionCell;

/// How long a client waits that has come by another way as well, before it asks again: each would have the other answered, without
/// end.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// All that a client is told of how to ask.
pub(crate) fn advice(context: &Context) -> Advice {
    let timeouts = context.sessions.settings();
    Advice {
        reconnect: Some(Reconnect::Retry),
        interval: Some(Duration::ZERO),
        timeout: Some(timeouts.poll_hold),
        max_interval: Some(timeouts.reconnect_window),
        multiple_clients: false,
    }
}

/// A client that was told to pause goes on doing so until it is told something else.
pub(crate) fn go_on_advice(session: &SessionCell) -> Option<Advice> {
    session.advise_pause(false).then(|| Advice::pause(Duration::ZERO))
}

/// How long a client is to stay away.
pub(crate) fn retry(code: CloseCode, context: &Context) -> Duration {
    Duration::from_millis(retry_ms(code, &context.entropy))
}

/// The last reply of a session, or of its connection.
pub(crate) fn farewell<'a>(reply: Reply<'a>, code: CloseCode, attachment: &Attachment) -> Reply<'a> {
    let Attachment { session, context, .. } = attachment;
    let reply = turned_away(reply, code, context);
    if reply.advice.is_some_and(|advice| advice.is_pause()) {
        session.advise_pause(true);
    }
    reply
}

/// The reply to a client that is turned away. Clients that are to have a new session are told so only when they are refused: some take it
/// only then.
pub(crate) fn turned_away<'a>(reply: Reply<'a>, code: CloseCode, context: &Context) -> Reply<'a> {
    let retry = retry(code, context);
    let (reply, advice) = match code {
        CloseCode::Normal => (reply.succeeded(), Advice::none()),
        // Its client has come by another way.
        CloseCode::Replaced => (reply.succeeded(), Advice::pause(PAUSE)),
        // The session is there, and so is what its client has not got.
        CloseCode::Disconnected | CloseCode::Moved | CloseCode::PongTimeout => {
            (reply.succeeded(), Advice::pause(retry))
        }
        CloseCode::TokenExpired => (reply.failed_with(401, code.reason()), Advice::handshake(retry)),
        code if code.invites_back() => (reply.failed_with(402, code.reason()), Advice::handshake(retry)),
        code => (reply.failed_with(403, code.reason()), Advice::none()),
    };
    Reply { advice: Some(advice), ..reply }
}
