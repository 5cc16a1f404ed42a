//! What a client is told when its connection begins.

use encke_core::dialect::Event;

use super::Attachment;
use crate::channel::ChannelName;

/// The first message on every connection.
pub(crate) fn hello(attachment: &Attachment, recovered: bool) -> Event<'static> {
    let timeouts = attachment.context.sessions.settings();
    let session = &attachment.session;
    Event::Hello {
        session: session.id().text().into(),
        resume: session.resume_token().expose().into(),
        recovered,
        seq: session.sent(),
        ping_interval: timeouts.ping_interval,
        pong_timeout: timeouts.pong_timeout,
        reconnect_window: timeouts.reconnect_window,
    }
}

/// The client no longer follows this channel.
pub(crate) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> Event<'a> {
    Event::Unsubscribed { channel: channel.as_str(), reason }
}
