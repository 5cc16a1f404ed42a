//! Tests commands whose session has just ended, or ends before they are carried out. No reply may report such
//! a command as carried out, and no error may suggest that earlier commands were not.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Waker};

use encke_core::close::CloseReason;
use encke_core::dialect::bayeux::{ClientMessage, split_messages};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;

use super::bayeux::{Replies, carry_out};
use super::long_poll::carry_out_all;
use crate::client::Services;
use crate::client::slow_engine::SlowControl;
use crate::client::test_services::{ADDRESS, attach, on_slow_engine};
use crate::commands::CommandContext;
use crate::session::{ClientInput, CommandSource, SessionHandle};

/// Creates a session on a slow engine.
fn session() -> (Arc<Services>, SessionHandle, Arc<SlowControl>) {
    let (context, held) = on_slow_engine();
    let token = attach(&context, None).session.resume_token().expose();
    let session = context.sessions.find(&token).expect("the session exists");
    (Arc::new(context), session, held)
}

/// Returns the context of commands that arrive on a request, not on the session's connection.
fn speaker<'a>(session: &'a SessionHandle, context: &'a Arc<Services>) -> CommandContext<'a> {
    CommandContext { session, services: context, source: CommandSource::request(ADDRESS) }
}

/// Creates a session that ended for this reason after a request had found it.
fn ended(reason: CloseReason) -> (Arc<Services>, SessionHandle) {
    let (context, session, _) = session();
    assert!(speaker(&session, &context).apply(ClientInput::Command), "the command is accepted");
    speaker(&session, &context).apply(ClientInput::Close(reason));
    (context, session)
}

/// Returns the response to commands whose session ends while the engine has not yet answered the first
/// publish.
fn answer(commands: &str, end: impl FnOnce(&Arc<Services>, &SessionHandle)) -> (StatusCode, String) {
    let (context, session, held) = session();
    let mut reply = pin!(carry_out_all(commands.as_bytes(), speaker(&session, &context)));
    let mut task = TaskContext::from_waker(Waker::noop());
    assert!(reply.as_mut().poll(&mut task).is_pending(), "the reply waits for the engine");
    end(&context, &session);
    held.is_open.store(true, Ordering::Relaxed);
    let reply = reply.now_or_never().expect("the engine has answered");
    let last = context.logs.channels.get("a").map(|channel| channel.last_offset());
    assert_eq!(last, Some(1), "only the first publish was accepted");
    let status = reply.status();
    let body =
        reply.into_body().collect().now_or_never().expect("a complete body").expect("no error").to_bytes();
    (status, String::from_utf8(body.into()).expect("text"))
}

fn close(reason: CloseReason) -> impl Fn(&Arc<Services>, &SessionHandle) {
    move |context, session| _ = speaker(session, context).apply(ClientInput::Close(reason))
}

#[test]
fn commands_before_the_end_succeed_and_the_end_is_reported() {
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
fn replies_precede_the_end() {
    let first = r#"{"id":7,"publish":{"channel":"a","data":1}}"#;
    let second = r#"{"id":8,"publish":{"channel":"a","data":2}}"#;
    let (_, body) = answer(&format!("[{first},{second}]"), close(CloseReason::Client));
    assert!(body.starts_with(r#"[{"reply":{"id":7,"ok":{"offset":1,"#), "{body}");
    assert!(body.contains(r#",{"goaway":{"#) && !body.contains(r#""id":8"#), "{body}");
}

#[test]
fn requested_close_is_not_reported() {
    let commands = r#"[{"id":7,"publish":{"channel":"a","data":1}},{"close":{}},{"ack":{"seq":0}}]"#;
    let (status, body) = answer(commands, |_, _| ());
    assert_eq!(status, StatusCode::OK);
    assert!(!body.contains("goaway"), "{body}");
}

#[test]
fn commands_for_an_ended_session_get_410() {
    for reason in [CloseReason::Client, CloseReason::ReconnectWindow] {
        let (context, session) = ended(reason);
        let speaker = speaker(&session, &context);
        for body in [
            r#"{"publish":{"channel":"a","data":1}}"#,
            r#"[{"id":1,"publish":{"channel":"a","data":1}},{"ack":{"seq":0}}]"#,
        ] {
            let reply =
                carry_out_all(body.as_bytes(), speaker).now_or_never().expect("no engine call is pending");
            assert_eq!(reply.status(), StatusCode::GONE, "{reason:?} {body}");
        }
        assert!(context.logs.channels.get("a").is_none(), "nothing was published");
    }
}

#[test]
fn bayeux_message_for_an_ended_session_fails() {
    for reason in [CloseReason::Client, CloseReason::ReconnectWindow] {
        let (context, session) = ended(reason);
        let speaker = speaker(&session, &context);
        let texts =
            split_messages(r#"{"channel":"/a","clientId":"s","data":1,"id":"7"}"#).expect("a message");
        let message = ClientMessage::parse(texts[0]).expect("a publish");
        let mut replies = Replies::default();
        carry_out(message, speaker, &mut replies).now_or_never().expect("no engine call is pending");
        let expected = r#""successful":false,"error":"402:"#;
        assert!(replies.0.contains(expected), "{reason:?}: {}", replies.0);
    }
}
