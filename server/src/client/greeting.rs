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
        seq: attachment.link.begins_after(),
        ping_interval: timeouts.ping_interval,
        pong_timeout: timeouts.pong_timeout,
        reconnect_window: timeouts.reconnect_window,
    }
}

/// The client no longer follows this channel.
pub(crate) fn unsubscribed<'a>(channel: &'a ChannelName, reason: &'static str) -> Event<'a> {
    Event::Unsubscribed { channel: channel.as_str(), reason }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use encke_core::dialect::Beginning;
    use encke_core::message::CompactJson;
    use futures_util::FutureExt;

    use super::super::test_context::{attach, attach_after, on_slow_engine};
    use super::*;
    use crate::admission::Holder;
    use crate::channel::LogMessage;
    use crate::session::{Attached, Channel, Outgoing, Transport};

    /// Takes what is sent.
    struct Taken;

    impl Outgoing for Taken {
        const TRANSPORT: Transport = Transport::WebSocket;

        fn len(&self) -> usize {
            0
        }

        fn message(&mut self, _: u64, _: &Channel, _: u64, _: &LogMessage) {}

        fn gap(&mut self, _: u64, _: &Channel, _: &Event<'_>, _: Option<u64>) {}

        fn notice(&mut self, _: u64, _: &Event<'_>) {}
    }

    /// A connection may be taken over before it has said its hello. What it says then is still its own: its client has nothing of what the
    /// other has.
    #[test]
    fn a_hello_says_where_its_own_connection_begins() {
        let (context, engine) = on_slow_engine();
        engine.answers.store(true, Ordering::Relaxed);
        let context = Arc::new(context);
        let attachment = |attached: Attached| Attachment::new(attached, Arc::clone(&context));
        let first = attachment(attach(&context, None));
        let name = ChannelName::new("a", 255).expect("a name");
        let speaker = first.speaker();
        let subscribed = context.sessions.subscribe(speaker.session, speaker.via, &name, &Beginning::Now);
        subscribed.into_future().now_or_never().expect("the engine answers").expect("it follows");
        for _ in 0..3 {
            let data = CompactJson::parse("1").expect("JSON");
            let published = context.logs.engine.append(&name, &Holder::Operator, &data.into(), None);
            published.into_future().now_or_never().expect("the engine answers").expect("it is published");
        }
        first.take_outgoing(&mut Taken);
        assert_eq!(first.session.sent(), 3);

        let exposed = first.session.resume_token().expose();
        let after = |seq| attachment(attach_after(&context, Some(exposed.to_string()), Some(seq)));
        let (second, third) = (after(1), after(2));
        for (attachment, expected) in [(&first, 0), (&second, 1), (&third, 2)] {
            let Event::Hello { seq, .. } = hello(attachment, &exposed, true) else { panic!("a hello") };
            assert_eq!(seq, expected);
        }
    }
}
