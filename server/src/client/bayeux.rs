//! Advice to Bayeux clients on how to continue.

use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{Advice, MessageReply, Reconnect};

use super::{Attachment, Services, retry_delay};

/// Pause before the next poll of a client that also polls over another connection. Without it, each poll
/// would cause the other one to be answered, in an endless loop.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Returns the full advice on how to poll.
pub(crate) fn advice(services: &Services) -> Advice {
    let timeouts = services.sessions.lifecycle.settings();
    Advice {
        reconnect: Some(Reconnect::Retry),
        interval: Some(Duration::ZERO),
        timeout: Some(timeouts.poll_hold),
        max_interval: Some(timeouts.reconnect_window),
        multiple_clients: false,
    }
}

/// Returns advice that ends a pause, if the client was advised to pause. A client continues to pause until it
/// receives different advice.
pub(crate) fn end_pause_advice(Attachment { session, mailbox, .. }: &Attachment) -> Option<Advice> {
    session.end_pause(mailbox.id).then(|| Advice::pause(Duration::ZERO))
}

/// Returns the reply that ends a session or its connection. Records whether it advises the client to pause.
pub(crate) fn final_reply<'a>(
    reply: MessageReply<'a>,
    code: CloseCode,
    attachment: &Attachment,
) -> MessageReply<'a> {
    let Attachment { session, services, .. } = attachment;
    let reply = refuse_with(reply, code, services);
    if reply.advice.is_some_and(|advice| advice.is_pause()) {
        session.note_pause();
    }
    reply
}

/// Returns the reply to a client that is refused. A client that has to open a new session is advised to
/// handshake only in a failed reply, because some clients follow this advice only in failed replies.
pub(crate) fn refuse_with<'a>(
    reply: MessageReply<'a>,
    code: CloseCode,
    services: &Services,
) -> MessageReply<'a> {
    let retry = retry_delay(code, &services.entropy);
    let (reply, advice) = match code {
        CloseCode::Normal => (reply.succeeded(), Advice::none()),
        // The client has another connection.
        CloseCode::Replaced => (reply.succeeded(), Advice::pause(PAUSE)),
        // The session still exists, with the messages that the client has not received.
        CloseCode::Disconnected | CloseCode::Moved | CloseCode::PongTimeout => {
            (reply.succeeded(), Advice::pause(retry))
        }
        CloseCode::TokenExpired => (reply.failed_with(401, code.reason()), Advice::handshake(retry)),
        code if code.allows_reconnect() => (reply.failed_with(402, code.reason()), Advice::handshake(retry)),
        code => (reply.failed_with(403, code.reason()), Advice::none()),
    };
    MessageReply { advice: Some(advice), ..reply }
}
