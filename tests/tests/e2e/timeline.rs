use std::time::{SystemTime, UNIX_EPOCH};

use encke_tests::RunningServer;
use encke_tests::waiting::until;
use serde_json::{Value, json};

use crate::restart::Restarts;

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("not so late")
}

fn timeline(server: &RunningServer, session: &str) -> Option<Value> {
    let answer = server.admin.get(&format!("/api/sessions/{session}/timeline"));
    assert!(matches!(answer.status, 200 | 404), "{answer:?}");
    (answer.status == 200).then(|| answer.json())
}

/// Events and reasons, when they are as many as are expected.
#[track_caller]
fn await_events(server: &RunningServer, session: &str, expected: &[(&str, Option<&str>)]) -> Vec<u64> {
    let events =
        || timeline(server, session).expect("it is known")["events"].as_array().cloned().expect("events");
    until("it has happened", || events().len() >= expected.len());
    let events = events();
    let expected: Vec<_> = expected.iter().map(|(event, reason)| (json!(event), json!(reason))).collect();
    let told: Vec<_> = events.iter().map(|event| (event["event"].clone(), event["reason"].clone())).collect();
    assert_eq!(told, expected);
    events.iter().map(|event| event["at_ms"].as_u64().expect("a time")).collect()
}

#[test]
fn what_happens_to_a_session_is_told_in_order_and_with_its_time() {
    let before = now_ms();
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let started = now_ms();
    let first = server.client();
    let session = first.hello.session.clone();
    let left = first.drop_connection();
    server.await_phase(&session, "suspended");
    let mut second = server.resume(&left.resume);
    let third = server.resume(&left.resume);
    assert_eq!(second.close_code(), Some(4100));
    assert_eq!(server.admin.disconnect(&session).status, 204);
    drop(third);
    server.await_gone(&session);
    let expected = [
        ("opened", None),
        ("suspended", Some("connection_lost")),
        ("resumed", Some("reconnect")),
        ("resumed", Some("take_over")),
        ("suspended", Some("disconnected")),
        ("expired", Some("reconnect_window")),
    ];
    let times = await_events(&server, &session, &expected);
    assert!(times.is_sorted() && times[0] >= started && times[5] <= now_ms(), "{times:?}");
    assert!(times[5] - times[4] >= 300, "the window has passed: {times:?}");
    let since = timeline(&server, &session).expect("it is known")["since_ms"].as_u64().expect("a time");
    assert!((before..=started).contains(&since), "since the server has started");
}

#[test]
fn an_end_says_why() {
    let server = RunningServer::with(&[]);
    let mut left = server.client();
    left.send(r#"{"close":{}}"#);
    await_events(&server, &left.hello.session, &[("opened", None), ("closed", Some("client"))]);
    let kicked = server.client();
    assert_eq!(server.admin.kick(&kicked.hello.session).status, 204);
    await_events(&server, &kicked.hello.session, &[("opened", None), ("closed", Some("kicked"))]);
}

#[test]
fn a_session_that_nobody_knows_is_not_found() {
    let server = RunningServer::with(&[]);
    let answer = server.admin.get("/api/sessions/s_AAAAAAAAAAAAAAAAAAAAAA/timeline");
    assert_eq!((answer.status, answer.error_code().as_str()), (404, "not_found"));
    assert_eq!(server.admin.get("/api/sessions/x/timeline").status, 400);
    assert_eq!(server.admin.post("/api/sessions/x/timeline", "").status, 405);
}

/// What was before the restart is not known any more, and that is said; the session is.
#[test]
fn a_session_of_the_process_before_is_found() {
    let mut restarts = Restarts::with(&[]);
    let client = restarts.server.client();
    let hello = client.hello.clone();
    restarts.stop();
    drop(client);
    let stopped = now_ms();
    restarts.start();
    await_events(&restarts.server, &hello.session, &[]);
    let known = timeline(&restarts.server, &hello.session).expect("it is there");
    assert!(known["since_ms"].as_u64() >= Some(stopped), "{known}");
    let back = restarts.server.resume(&hello.resume);
    assert!(back.hello.recovered);
    await_events(&restarts.server, &hello.session, &[("resumed", Some("reconnect"))]);
}
