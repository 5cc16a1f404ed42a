use encke_tests::RunningServer;
use encke_tests::tokens::unix_ms;
use encke_tests::waiting::until;
use serde_json::{Value, json};

use crate::restart::RestartableServer;

/// Returns the timeline of a session, which must be known.
#[track_caller]
fn timeline(server: &RunningServer, session: &str) -> Value {
    server.admin.get(&format!("/api/sessions/{session}/timeline")).ok()
}

/// Waits for this number of events and asserts their kinds and reasons. Returns their times in milliseconds.
#[track_caller]
fn await_events(server: &RunningServer, session: &str, expected: &[(&str, &str)]) -> Vec<u64> {
    let events = || timeline(server, session)["events"].as_array().cloned().expect("events");
    until("the events have happened", || events().len() >= expected.len());
    let events = events();
    let expected: Vec<_> = expected.iter().map(|(event, reason)| (json!(event), json!(reason))).collect();
    let listed: Vec<_> =
        events.iter().map(|event| (event["event"].clone(), event["reason"].clone())).collect();
    assert_eq!(listed, expected);
    events.iter().map(|event| event["at_ms"].as_u64().expect("a time")).collect()
}

#[test]
fn events_are_listed_in_order_with_their_times() {
    let before = unix_ms();
    let server = RunningServer::with(&["session.reconnect_window=3s"]);
    let started = unix_ms();
    let first = server.client();
    let session = first.hello.session.clone();
    let left = server.suspend(first);
    let mut second = server.resume(&left.resume);
    let third = server.resume(&left.resume);
    assert_eq!(second.close_code(), Some(4100));
    assert_eq!(server.admin.disconnect(&session).status, 204);
    drop(third);
    server.await_removal(&session);
    let expected = [
        ("opened", "connect"),
        ("suspended", "connection_lost"),
        ("resumed", "reconnect"),
        ("resumed", "take_over"),
        ("suspended", "disconnected"),
        ("expired", "reconnect_window"),
    ];
    let times = await_events(&server, &session, &expected);
    assert!(times.is_sorted() && times[0] >= started && times[5] <= unix_ms(), "{times:?}");
    assert!(times[5] - times[4] >= 3_000, "the window has passed: {times:?}");
    let since = timeline(&server, &session)["since_ms"].as_u64().expect("a time");
    assert!((before..=started).contains(&since), "the timeline begins when the server started");

    let mut left = server.client();
    left.send(r#"{"close":{}}"#);
    await_events(&server, &left.hello.session, &[("opened", "connect"), ("closed", "client")]);
    let kicked = server.client();
    assert_eq!(server.admin.kick(&kicked.hello.session).status, 204);
    await_events(&server, &kicked.hello.session, &[("opened", "connect"), ("closed", "kicked")]);

    let answer = server.admin.get("/api/sessions/s_AAAAAAAAAAAAAAAAAAAAAA/timeline");
    answer.assert_error(404, "not_found");
    assert_eq!(server.admin.get("/api/sessions/x/timeline").status, 400);
    assert_eq!(server.admin.post("/api/sessions/x/timeline", "").status, 405);
}

/// The session is known, but events from before the restart are not, as `since_ms` shows.
#[test]
fn session_from_before_a_restart_is_found() {
    let mut restarts = RestartableServer::with(&[]);
    let client = restarts.server.client();
    let hello = client.hello.clone();
    restarts.stop();
    drop(client);
    let stopped = unix_ms();
    restarts.start();
    await_events(&restarts.server, &hello.session, &[]);
    let known = timeline(&restarts.server, &hello.session);
    assert!(known["since_ms"].as_u64() >= Some(stopped), "{known}");
    let resumed = restarts.server.resume(&hello.resume);
    assert!(resumed.hello.recovered);
    await_events(&restarts.server, &hello.session, &[("resumed", "reconnect")]);
}
