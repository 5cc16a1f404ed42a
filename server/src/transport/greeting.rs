//! What a connection's client is told, over whatever transport.

use encke_core::dialect::Event;

use super::attachment::Attachment;
use crate::channel::ChannelName;

/// The first message on every connection.
pub(super) fn hello(attachment: &Attachment, recovered: bool) -> Event<'static> {
    let timeouts = attachment.shared.sessions.settings();
    let session = &attachment.session;
    Event::Hello {
        session: session.id().to_string().into(),
        resume: session.resume_token().expose().into(),
        recovered,
        seq: session.sent(),
        ping_interval: timeouts.ping_interval,
        pong_timeout: timeouts.pong_timeout,
        reconnect_window: timeouts.reconnect_window,
    }
}

/// The client does not follow this channel any more.
pub(super) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> Event<'a> {
    Event::Unsubscribed { channel: channel.as_str(), reason }
}
