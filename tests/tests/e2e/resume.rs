use encke_tests::raw::TEXT;
use encke_tests::{Client, RawClient, RunningServer};

const REPLACED: u16 = 4100;

#[test]
fn hello_contains_everything_a_client_needs() {
    let server = RunningServer::with(&[
        "session.ping_interval=7s",
        "session.pong_timeout=3s",
        "session.reconnect_window=11s",
    ]);
    let text = RawClient::upgraded(server.public, "").text_message();
    assert!(text.starts_with(r#"{"hello":{"version":1,"session":"s_"#), "{text}");
    assert!(!text.contains([' ', '\n']), "{text}");
    let hello = server.client().hello;
    assert_eq!(hello.object.as_object().expect("an object").len(), 1);
    let fields = hello.object["hello"].as_object().expect("an object");
    assert_eq!(fields["recovered"], false);
    assert_eq!(fields["seq"], 0);
    assert_eq!(fields["ping_interval_ms"], 7_000);
    assert_eq!(fields["pong_timeout_ms"], 3_000);
    assert_eq!(fields["reconnect_window_ms"], 11_000);
    assert_eq!(fields.len(), 8, "{fields:?}");
    let secret = hello.resume.strip_prefix(&*hello.session).expect("a token begins with the id");
    assert!(secret.len() >= 23, "an id, a dot and 128 bits: {hello:?}");
}

#[test]
fn session_is_resumed_within_the_window() {
    let server = RunningServer::with(&[]);
    let first = server.suspended_session();
    for seq in ["", "&seq=0"] {
        let query = format!("resume={}{seq}", first.resume);
        let again = server.suspend(Client::connect(server.public, &query));
        assert!(again.recovered);
        assert_eq!((&again.session, &again.resume), (&first.session, &first.resume));
    }
    let twice = ", suspended connection_lost, resumed reconnect".repeat(2);
    server.await_lifecycle(&first.session, &format!("opened connect{twice}, suspended connection_lost"));
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("resumed", "reconnect"), 2.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"recovered\"}"), 2.0);
}

#[test]
fn resume_after_the_window_opens_a_new_session_and_the_old_one_expires_once() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let first = server.suspended_session();
    server.await_removal(&first.session);
    let again = server.resume(&first.resume);
    assert!(!again.hello.recovered);
    assert_ne!(again.hello.session, first.session);
    assert_ne!(again.hello.resume, first.resume);
    server.await_lifecycle(
        &first.session,
        "opened connect, suspended connection_lost, expired reconnect_window",
    );
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"new_session\"}"), 1.0);
}

#[test]
fn invalid_resume_token_opens_a_new_session() {
    let server = RunningServer::with(&[]);
    let unknown = "s_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA";
    for token in [unknown, "", "x", ".", "s_.", "%00%7f", &"a".repeat(4_000)] {
        assert!(!server.resume(token).hello.recovered, "{token}");
    }
    server.assert_healthy();
}

#[test]
fn wrong_secret_does_not_resume_the_session() {
    let server = RunningServer::with(&[]);
    let mut victim = server.client();
    let (id, secret) = victim.hello.resume.split_once('.').expect("id and secret");
    let first = if secret.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{id}.{first}{}", &secret[1..]);
    assert_ne!(server.resume(&forged).hello.session, victim.hello.session);
    assert_eq!(victim.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1, "the victim's session is unaffected");
    server.await_lifecycle(&victim.hello.session, "opened connect");
    let left = server.suspend(victim);
    assert!(!server.resume(&forged).hello.recovered);
    assert!(server.resume(&left.resume).hello.recovered);
}

/// The second connection has the heartbeat that it asks for, and late input of the first one is ignored.
#[test]
fn the_second_connection_wins() {
    let server = RunningServer::with(&["session.ping_interval=4s", "session.pong_timeout=4s"]);
    let (mut first, hello) = RawClient::greeted(server.public, "heartbeat=frame");
    let query = format!("resume={}&heartbeat=message", hello.resume);
    let (mut second, again) = RawClient::greeted(server.public, &query);
    assert!(again.recovered && again.session == hello.session, "{again:?}");
    // The first client has not read its Close frame yet and keeps sending. If the `close` command took
    // effect, it would end the session.
    first.text(r#"{"close":{}}"#);
    first.text(r#"{"ack":{"seq":99}}"#);
    let (code, reason, _) = first.close_frame();
    assert_eq!((code, &*reason), (REPLACED, "replaced"));
    first.text(r#"{"close":{}}"#);
    first.reset();
    assert_eq!(second.frame_of(TEXT).payload, br#"{"ping":{"seq":0}}"#);
    server.await_lifecycle(&hello.session, "opened connect, resumed take_over");
    let metrics = server.admin.metrics();
    assert_eq!((metrics.sessions("attached"), metrics.sessions("suspended")), (1.0, 0.0));
    assert_eq!(metrics.events("resumed", "take_over"), 1.0);
}
