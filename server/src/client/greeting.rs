//! What a client is told when its connection begins.

use std::time::Duration;

use encke_core::dialect::json::{Hello, ServerMessage, Unsubscribed, VERSION};

use super::Attachment;
use crate::channel::ChannelName;

/// The first message on every connection.
pub(crate) fn hello(attachment: &Attachment, recovered: bool) -> ServerMessage<'static> {
    let timeouts = attachment.context.sessions.settings();
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

/// The client no longer follows this channel.
pub(crate) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> ServerMessage<'a> {
    ServerMessage::Unsubscribed(Unsubscribed { channel: channel.as_str().into(), reason: reason.into() })
}
