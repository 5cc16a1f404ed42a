//! Commands that come when their session has just ended: nothing is done, and no reply says that it was.

use std::sync::Arc;
use std::time::Duration;

use encke_core::close::CloseReason;
use encke_core::dialect::DialectName;
use encke_core::dialect::bayeux::{ClientMessage, messages};
use encke_core::session::{ConnectionKind, Delivery, Heartbeat};
use futures_util::FutureExt;
use hyper::StatusCode;

use super::bayeux::{Replies, carry_out};
use super::poll::carry_out_all;
use crate::auth::Identity;
use crate::client::{Context, Speaker};
use crate::clock::Clock;
use crate::config::Settings;
use crate::context;
use crate::entropy::Entropy;
use crate::events::{HookSink, NoHooks};
use crate::executor::NoTasks;
use crate::session::{AttachRequest, Said, SessionHandle, Via};
use crate::timeouts::Timeouts;

/// A session that has ended for this reason after it was found for a request.
fn ended(reason: CloseReason) -> (Context, SessionHandle) {
    let config = Settings::default().resolve().expect("the defaults are valid");
    let clock = Arc::new(Clock::new(config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.slots());
    let events = Box::new(HookSink(Box::new(NoHooks)));
    let context = context::client(&config, timeouts, Entropy::system(), Arc::new(NoTasks), events);
    let address = [127, 0, 0, 1].into();
    let request = AttachRequest {
        resume: None,
        seq: None,
        identity: Identity::ANONYMOUS,
        address,
        kind: ConnectionKind::Stream(Heartbeat::Frame),
        dialect: DialectName::Json,
        delivery: Delivery::AtLeastOnce,
        may_open: true,
        only_resume: false,
    };
    let attached = context.sessions.attach(&request, context.permits.take(address), || false);
    let token = attached.expect("a session").session.resume_token().expose();
    let session = context.sessions.find(&token).expect("it is there");
    let speaker = Speaker { session: &session, context: &context, via: Via::request(address) };
    assert!(speaker.say(Said::Command), "it is heard");
    speaker.say(Said::Close(reason));
    (context, session)
}

#[test]
fn a_post_of_commands_that_were_not_heard_is_told_that_the_session_is_gone() {
    for reason in [CloseReason::Client, CloseReason::ReconnectWindow] {
        let (context, session) = ended(reason);
        let via = Via::request([127, 0, 0, 1].into());
        let speaker = Speaker { session: &session, context: &context, via };
        for body in [
            r#"{"publish":{"channel":"a","data":1}}"#,
            r#"[{"id":1,"publish":{"channel":"a","data":1}},{"ack":{"seq":0}}]"#,
        ] {
            let reply = carry_out_all(body.as_bytes(), speaker).now_or_never().expect("nothing waits");
            assert_eq!(reply.status(), StatusCode::GONE, "{reason:?} {body}");
        }
        assert!(context.logs.channels.get("a").is_none(), "nothing was published");
    }
}

#[test]
fn a_message_of_bayeux_that_was_not_heard_is_no_success() {
    for reason in [CloseReason::Client, CloseReason::ReconnectWindow] {
        let (context, session) = ended(reason);
        let via = Via::request([127, 0, 0, 1].into());
        let speaker = Speaker { session: &session, context: &context, via };
        let texts = messages(r#"{"channel":"/a","clientId":"s","data":1,"id":"7"}"#).expect("a message");
        let message = ClientMessage::parse(texts[0]).expect("a publish");
        let mut replies = Replies::default();
        carry_out(message, speaker, &mut replies).now_or_never().expect("nothing waits");
        let expected = r#""successful":false,"error":"402:"#;
        assert!(replies.0.contains(expected), "{reason:?}: {}", replies.0);
    }
}
