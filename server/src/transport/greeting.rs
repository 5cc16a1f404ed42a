//! What a connection's client is told, over whatever transport.

use std::time::Duration;

use encke_core::dialect::json::{Hello, ServerMessage, Unsubscribed, VERSION};

use super::attachment::Attachment;
use crate::channel::ChannelName;

/// The first message on every connection.
pub(super) fn hello(attachment: &Attachment, recovered: bool) -> ServerMessage<'static> {
    let timeouts = attachment.shared.sessions.settings();
    let session = &attachment.session;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    ServerMessage::Hello(Hello {
        version: VERSION,
        session: session.id().to_string().into(),
        resume: session.resume_token().expose().into(),
        recovered,
        seq: session.sent(),
        ping_interval_ms: millis(timeouts.ping_interval),
        pong_timeout_ms: millis(timeouts.pong_timeout),
        reconnect_window_ms: millis(timeouts.reconnect_window),
    })
}

/// The client does not follow this channel any more.
pub(super) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> ServerMessage<'a> {
    ServerMessage::Unsubscribed(Unsubscribed { channel: channel.as_str().into(), reason: reason.into() })
}
