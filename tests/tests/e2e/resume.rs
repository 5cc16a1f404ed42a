use encke_tests::{Client, RawClient, RunningServer};

#[test]
fn hello_contains_everything_a_client_needs() {
    let server = RunningServer::with(&[
        "session.ping_interval=7s",
        "session.pong_timeout=3s",
        "session.reconnect_window=11s",
    ]);
    let client = server.client();
    let hello = &client.hello;
    assert_eq!(hello.object.as_object().expect("an object").len(), 1);
    let fields = hello.object["hello"].as_object().expect("an object");
    assert_eq!(fields["version"], 1);
    assert_eq!(fields["recovered"], false);
    assert_eq!(fields["seq"], 0);
    assert_eq!(fields["ping_interval_ms"], 7_000);
    assert_eq!(fields["pong_timeout_ms"], 3_000);
    assert_eq!(fields["reconnect_window_ms"], 11_000);
    assert_eq!(fields.len(), 8, "{fields:?}");
    assert!(hello.session.starts_with("s_"), "{hello:?}");
    let secret = hello.resume.strip_prefix(&*hello.session).expect("a token begins with the id");
    assert!(secret.len() >= 23, "an id, a dot and 128 bits: {hello:?}");
}

#[test]
fn hello_is_one_compact_text_frame() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::upgraded(server.public, "");
    let frame = client.frame_of(0x81);
    assert!(frame.payload.starts_with(br#"{"hello":{"version":1,"session":"s_"#));
    assert!(!frame.payload.contains(&b' ') && !frame.payload.contains(&b'\n'));
}

#[test]
fn session_is_resumed_within_the_window() {
    let server = RunningServer::with(&[]);
    let first = server.suspended_session();
    let again = Client::connect(server.public, &format!("resume={}&seq=0", first.resume));
    assert!(again.hello.recovered);
    assert_eq!(again.hello.session, first.session);
    assert_eq!(again.hello.resume, first.resume);
    server.await_phase(&first.session, "attached");
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&first.session, &events);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("resumed", "reconnect"), 1.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"recovered\"}"), 1.0);
}

#[test]
fn session_can_be_resumed_repeatedly() {
    let server = RunningServer::with(&[]);
    let first = server.suspended_session();
    for _ in 0..5 {
        let again = server.resume(&first.resume).drop_connection();
        assert!(again.recovered);
        assert_eq!(again.session, first.session);
        server.await_phase(&first.session, "suspended");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
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
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("expired", "reconnect_window")];
    server.logs.await_lifecycle(&first.session, &events);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"new_session\"}"), 1.0);
}

#[test]
fn session_is_resumed_without_a_seq() {
    let server = RunningServer::with(&[]);
    let first = server.suspended_session();
    let again = server.resume(&first.resume);
    assert!(again.hello.recovered);
    assert_eq!(again.hello.session, first.session);
}

#[test]
fn seq_beyond_what_was_sent_opens_a_new_session() {
    let server = RunningServer::with(&[]);
    let first = server.suspended_session();
    let again = Client::connect(server.public, &format!("resume={}&seq=1", first.resume));
    assert!(!again.hello.recovered);
    assert_ne!(again.hello.session, first.session);
    server.await_phase(&first.session, "suspended");
    assert!(server.resume(&first.resume).hello.recovered, "the session itself is unaffected");
}

#[test]
fn invalid_resume_token_opens_a_new_session() {
    let server = RunningServer::with(&[]);
    let unknown = "s_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA";
    for token in [unknown, "", "x", ".", "s_.", "%00%ff", &"a".repeat(4_000)] {
        let client = server.resume(token);
        assert!(!client.hello.recovered, "{token}");
    }
    server.assert_healthy();
}

#[test]
fn wrong_secret_does_not_resume_the_session() {
    let server = RunningServer::with(&[]);
    let victim = server.client();
    let (id, secret) = victim.hello.resume.split_once('.').expect("id and secret");
    let first = if secret.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{id}.{first}{}", &secret[1..]);

    let thief = server.resume(&forged);
    assert!(!thief.hello.recovered);
    assert_ne!(thief.hello.session, victim.hello.session);

    let mut victim = victim;
    assert_eq!(victim.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1, "the victim's session is unaffected");
    server.logs.await_lifecycle(&victim.hello.session, &[("opened", "connect")]);
    let left = victim.drop_connection();
    server.await_phase(&left.session, "suspended");
    assert!(!server.resume(&forged).hello.recovered);
    assert!(server.resume(&left.resume).hello.recovered);
}
