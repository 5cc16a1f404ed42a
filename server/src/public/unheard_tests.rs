//! Commands that come when their session has just ended, or before which it ends: no reply says that they were carried out, and no error
//! says that those before them were not.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Waker};

use encke_core::close::CloseReason;
use encke_core::dialect::bayeux::{ClientMessage, messages};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;

use super::bayeux::{Replies, carry_out};
use super::poll::carry_out_all;
use crate::client::test_context::{ADDRESS, attach, on_slow_engine};
use crate::client::{Context, Speaker};
use crate::engine::slow::Held;
use crate::session::{Said, SessionHandle, Via};

/// A session on a slow engine.
fn session() -> (Context, SessionHandle, Arc<Held>) {
    let (context, held) = on_slow_engine();
    let token = attach(&context, None).session.resume_token().expose();
    let session = context.sessions.find(&token).expect("it is there");
    (context, session, held)
}

/// Who asks beside the session's connection.
fn speaker<'a>(session: &'a SessionHandle, context: &'a Context) -> Speaker<'a> {
    Speaker { session, context, via: Via::request(ADDRESS) }
}

/// A session that has ended for this reason after it was found for a request.
fn ended(reason: CloseReason) -> (Context, SessionHandle) {
    let (context, session, _) = session();
    assert!(speaker(&session, &context).say(Said::Command), "it is heard");
    speaker(&session, &context).say(Said::Close(reason));
    (context, session)
}

/// The answer to commands whose session ends while the engine has not answered the first publish of them.
fn answer(commands: &str, end: impl FnOnce(&Context, &SessionHandle)) -> (StatusCode, String) {
    let (context, session, held) = session();
    let mut reply = pin!(carry_out_all(commands.as_bytes(), speaker(&session, &context)));
    let mut task = TaskContext::from_waker(Waker::noop());
    assert!(reply.as_mut().poll(&mut task).is_pending(), "it waits for the engine");
    end(&context, &session);
    held.answers.store(true, Ordering::Relaxed);
    let reply = reply.now_or_never().expect("the engine has answered");
    let last = context.logs.channels.get("a").map(|channel| channel.last_offset());
    assert_eq!(last, Some(1), "only the first was heard");
    let status = reply.status();
    let body = reply.into_body().collect().now_or_never().expect("it is whole").expect("no error").to_bytes();
    (status, String::from_utf8(body.into()).expect("text"))
}

fn close(reason: CloseReason) -> impl Fn(&Context, &SessionHandle) {
    move |context, session| _ = speaker(session, context).say(Said::Close(reason))
}

#[test]
fn what_was_heard_before_the_end_is_no_error_and_the_end_is_told() {
    const FIRST: &str = r#"{"publish":{"channel":"a","data":1}}"#;
    const SECOND: &str = r#"{"publish":{"channel":"a","data":2}}"#;
    let both = format!("[{FIRST},{SECOND}]");
    for (reason, code) in [
        (CloseReason::Client, "normal"),
        (CloseReason::ReconnectWindow, "idle"),
        (CloseReason::Kicked, "kicked"),
    ] {
        let (status, body) = answer(&both, close(reason));
        assert_eq!(status, StatusCode::OK, "{reason:?}");
        assert!(body.starts_with(r#"[{"goaway":{"#) && body.contains(code), "{reason:?}: {body}");
    }
    let (status, body) = answer(&both, |context, _| context.sessions.move_all());
    assert_eq!(status, StatusCode::OK);
    assert!(body.starts_with(r#"[{"goaway":{"#) && body.contains("moved"), "{body}");
}

#[test]
fn replies_come_before_the_end_is_told() {
    let first = r#"{"id":7,"publish":{"channel":"a","data":1}}"#;
    let second = r#"{"id":8,"publish":{"channel":"a","data":2}}"#;
    let (_, body) = answer(&format!("[{first},{second}]"), close(CloseReason::Client));
    assert!(body.starts_with(r#"[{"reply":{"id":7,"ok":{"offset":1,"#), "{body}");
    assert!(body.contains(r#",{"goaway":{"#) && !body.contains(r#""id":8"#), "{body}");
}

#[test]
fn nobody_is_told_of_an_end_that_the_request_itself_asked_for() {
    let commands = r#"[{"id":7,"publish":{"channel":"a","data":1}},{"close":{}},{"ack":{"seq":0}}]"#;
    let (status, body) = answer(commands, |_, _| ());
    assert_eq!(status, StatusCode::OK);
    assert!(!body.contains("goaway"), "{body}");
}

#[test]
fn a_post_of_commands_that_were_not_heard_is_told_that_the_session_is_gone() {
    for reason in [CloseReason::Client, CloseReason::ReconnectWindow] {
        let (context, session) = ended(reason);
        let speaker = speaker(&session, &context);
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
        let speaker = speaker(&session, &context);
        let texts = messages(r#"{"channel":"/a","clientId":"s","data":1,"id":"7"}"#).expect("a message");
        let message = ClientMessage::parse(texts[0]).expect("a publish");
        let mut replies = Replies::default();
        carry_out(message, speaker, &mut replies).now_or_never().expect("nothing waits");
        let expected = r#""successful":false,"error":"402:"#;
        assert!(replies.0.contains(expected), "{reason:?}: {}", replies.0);
    }
}
