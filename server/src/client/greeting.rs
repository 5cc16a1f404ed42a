//! What a client is told when its connection begins.

use encke_core::dialect::Event;

use super::Attachment;
use crate::channel::ChannelName;
use crate::session::ExposedToken;

/// The first message on every connection. `token` is that of its session.
pub(crate) fn hello<'a>(attachment: &Attachment, token: &'a ExposedToken, recovered: bool) -> Event<'a> {
    let timeouts = attachment.context.sessions.settings();
    Event::Hello {
        session: token.id().into(),
        resume: (&**token).into(),
        recovered,
        seq: attachment.session.sent(),
        ping_interval: timeouts.ping_interval,
        pong_timeout: timeouts.pong_timeout,
        reconnect_window: timeouts.reconnect_window,
    }
}

/// The client no longer follows this channel.
pub(crate) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> Event<'a> {
    Event::Unsubscribed { channel: channel.as_str(), reason }
}
