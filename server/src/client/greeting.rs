//! Messages at the beginning of a connection.

use encke_broker::channel::ChannelName;
use encke_core::dialect::ServerEvent;

use super::Attachment;
use crate::session::ExposedToken;

/// Returns the first message on every connection. `token` is the session's resume token.
pub(crate) fn hello<'a>(
    attachment: &Attachment,
    token: &'a ExposedToken,
    recovered: bool,
) -> ServerEvent<'a> {
    let timeouts = attachment.services.sessions.lifecycle.settings();
    ServerEvent::Hello {
        session: token.id().into(),
        resume: (&**token).into(),
        recovered,
        seq: attachment.mailbox.start_seq(),
        ping_interval: timeouts.ping_interval,
        pong_timeout: timeouts.pong_timeout,
        reconnect_window: timeouts.reconnect_window,
        positions: attachment.services.shared_sessions.is_some(),
    }
}

/// Returns the notice that a subscription has ended.
pub(crate) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> ServerEvent<'a> {
    ServerEvent::Unsubscribed { channel: channel.as_str(), reason }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use encke_base::quota::QuotaOwner;
    use encke_broker::channel::LogMessage;
    use encke_core::dialect::StartPosition;
    use encke_core::message::CompactJson;
    use futures_util::FutureExt;

    use super::super::test_services::{attach, attach_after, on_slow_engine};
    use super::*;
    use crate::session::{Attached, Channel, CommandSource, DeliveryWriter, take_batch};

    /// Discards what is sent.
    struct Discard;

    impl DeliveryWriter for Discard {
        fn len(&self) -> usize {
            0
        }

        fn message(&mut self, _: u64, _: &Channel, _: u64, _: &LogMessage) {}

        fn gap(&mut self, _: u64, _: &Channel, _: &ServerEvent<'_>, _: Option<u64>) {}

        fn notice(&mut self, _: u64, _: &ServerEvent<'_>) {}
    }

    /// A newer connection may replace one that has not sent its hello yet. The hello still describes its own
    /// connection, on which none of the newer connection's messages were sent.
    #[test]
    fn hello_has_the_start_seq_of_its_own_connection() {
        let (services, engine) = on_slow_engine();
        engine.is_open.store(true, Ordering::Relaxed);
        let services = Arc::new(services);
        let attachment = |attached: Attached| Attachment::new(attached, Arc::clone(&services));
        let first = attachment(attach(&services, None));
        let name = ChannelName::new("a", 255).expect("a name");
        let source = CommandSource::connection(&first.mailbox);
        let subscribed =
            services.sessions.subscriptions.subscribe(&first.session, source, &name, &StartPosition::Now);
        subscribed.into_future().now_or_never().expect("the engine answers").expect("it subscribes");
        for _ in 0..3 {
            let data = CompactJson::parse("1").expect("JSON");
            let published = services.logs.engine.append(&name, &QuotaOwner::Operator, &data.into(), None);
            published.into_future().now_or_never().expect("the engine answers").expect("it is published");
        }
        let take = |outbox: &mut _| take_batch(&services.sessions.subscriptions, outbox, &mut Discard);
        services.sessions.lifecycle.take_outgoing(&first.session, &first.mailbox, take);
        assert_eq!(first.session.sent(), 3);

        let exposed = first.session.resume_token().expose();
        let after = |seq| attachment(attach_after(&services, Some(exposed.to_string()), Some(seq)));
        let (second, third) = (after(1), after(2));
        for (attachment, expected) in [(&first, 0), (&second, 1), (&third, 2)] {
            let ServerEvent::Hello { seq, .. } = hello(attachment, &exposed, true) else {
                panic!("expected a hello")
            };
            assert_eq!(seq, expected);
        }
    }
}
