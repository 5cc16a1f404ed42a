use encke_tests::raw::TEXT;
use encke_tests::{RawClient, RunningServer, ServerOutput};

const REPLACED: u16 = 4100;

#[test]
fn the_second_connection_wins() {
    let server = RunningServer::with(&[]);
    let mut first = server.client();
    let mut second = server.resume(&first.hello.resume);
    assert!(second.hello.recovered);
    assert_eq!(second.hello.session, first.hello.session);
    assert_eq!(first.close_code(), Some(REPLACED));

    assert_eq!(second.request(r#"{"id":1,"ack":{"seq":0}}"#)["ok"], serde_json::json!({}));
    server.logs.await_lifecycle(&second.hello.session, &[("opened", "connect"), ("resumed", "take_over")]);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("resumed", "take_over"), 1.0);
    assert_eq!(metrics.sessions("attached"), 1.0);
    assert_eq!(metrics.sessions("suspended"), 0.0);
}

#[test]
fn replaced_connection_receives_the_reason() {
    let server = RunningServer::with(&[]);
    let mut first = server.client();
    let _second = server.resume(&first.hello.resume);
    let output = first.next_within(encke_tests::waiting::TIMEOUT);
    assert_eq!(output, Some(ServerOutput::Close(REPLACED, "replaced".into())));
}

#[test]
fn late_input_of_the_replaced_connection_is_ignored() {
    let server = RunningServer::with(&[]);
    let (mut first, hello) = RawClient::greeted(server.public, "");
    let mut second = server.resume(&hello.resume);
    // The first client has not read its Close frame yet and keeps sending. If the `close` command took
    // effect, it would end the session.
    first.text(r#"{"close":{}}"#);
    first.text(r#"{"ack":{"seq":99}}"#);
    assert_eq!(first.close_code(), REPLACED);
    first.text(r#"{"close":{}}"#);
    first.reset();
    assert_eq!(second.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
    server.await_phase(&hello.session, "attached");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("resumed", "take_over")]);
}

#[test]
fn a_session_can_be_taken_over_many_times() {
    let server = RunningServer::with(&[]);
    let mut current = server.client();
    for _ in 0..10 {
        let mut next = server.resume(&current.hello.resume);
        assert_eq!(current.close_code(), Some(REPLACED));
        assert_eq!(next.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
        current = next;
    }
    assert_eq!(server.admin.metrics().events("resumed", "take_over"), 10.0);
}

#[test]
fn second_connection_has_the_heartbeat_it_asks_for() {
    let server = RunningServer::with(&["session.ping_interval=500ms", "session.pong_timeout=500ms"]);
    let (mut first, hello) = RawClient::greeted(server.public, "heartbeat=frame");
    let query = format!("resume={}&heartbeat=message", hello.resume);
    let (mut second, _) = RawClient::greeted(server.public, &query);
    assert_eq!(first.close_code(), REPLACED);
    assert_eq!(second.frame_of(TEXT).payload, br#"{"ping":{"seq":0}}"#);
}
