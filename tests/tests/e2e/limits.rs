use encke_tests::backend::Backend;
use encke_tests::events::request_events;
use encke_tests::raw::Dial;
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::token;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Client, EventStream, Hello, Launch, RawClient, RunningServer};
use serde_json::json;

const OVERLOADED: u16 = 4005;

#[test]
fn connections_are_limited() {
    let server = RunningServer::with(&["limits.max_connections=2"]);
    let first = server.client();
    let mut second = server.client();
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    let again = server.resume(&first.hello.resume);
    assert!(again.hello.recovered, "a take-over uses the slot of the connection that it replaces");
    let first = again;
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    assert_eq!(second.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1, "the other connections are open");

    let left = server.suspend(first);
    // A connection counts until its socket is closed, a little after its session is no longer attached.
    let query = format!("resume={}", left.resume);
    let again = eventually("the client is admitted", || Client::try_connect(server.public, &query).ok());
    assert!(again.hello.recovered);
    assert_eq!(server.admin.metrics().events("opened", "connect"), 2.0);
}

#[test]
fn sessions_are_limited() {
    let server = RunningServer::with(&["limits.max_sessions=2"]);
    let mut first = server.client();
    let left = server.client().drop_connection();
    let second = server.resume(&left.resume);
    assert!(second.hello.recovered, "resuming a session needs no new slot");
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);

    first.close();
    server.await_removal(&first.hello.session);
    let third = server.client();
    assert!(!third.hello.recovered);
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("opened", "connect"), 3.0, "a refused client opens nothing");
    assert_eq!(metrics.sessions("attached"), 2.0);
}

/// Creates a suspended session of a client with this address.
fn suspended_from(server: &RunningServer, source: &str) -> Hello {
    server.suspend(server.client_from(source))
}

#[test]
fn address_with_most_suspended_sessions_loses_its_oldest() {
    let server = RunningServer::with(&["limits.max_sessions=5"]);
    let other = suspended_from(&server, "127.0.0.2");
    let many: Vec<_> = (0..4).map(|_| suspended_from(&server, "127.0.0.3")).collect();
    // A resumed session is no longer a candidate for eviction.
    let back =
        Client::over(Dial::from("127.0.0.3").connect(server.public), &format!("resume={}", many[0].resume));
    assert!(back.hello.recovered);
    let newcomers = many[1..3].iter().map(|oldest| {
        let newcomer = server.client_from("127.0.0.4");
        server.await_lifecycle(&oldest.session, "opened connect, suspended connection_lost, closed limit");
        newcomer
    });
    let _newcomers: Vec<_> = newcomers.collect();
    for left in [&other, &many[3]] {
        assert!(server.resume(&left.resume).hello.recovered);
    }
    server.assert_healthy();
}

#[test]
fn eviction_takes_sessions_of_the_user_with_most() {
    let server = RunningServer::with_tokens(&["limits.max_sessions=3"]);
    let leave = |user: &str| server.suspend(server.client_of(user));
    let bob = leave("bob");
    let alice = [leave("alice"), leave("alice")];
    let _carol = server.client_of("carol");
    server.await_removal(&alice[0].session);
    for (user, left) in [("bob", &bob), ("alice", &alice[1])] {
        let query = format!("resume={}&token={}", left.resume, token(user, json!({})));
        let again = Client::connect(server.public, &query);
        assert!(again.hello.recovered, "{user}");
    }
}

/// A refused stream has status 200, because an `EventSource` treats any other status as final.
#[test]
fn event_streams_count_as_connections() {
    let server = RunningServer::with(&["limits.max_connections_per_address=1"]);
    let (stream, hello) = EventStream::greeted(server.public, "channels=news");
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    let answer = request_events(server.public, "channels=news", "");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let retry = answer.body.strip_prefix("retry: ").and_then(|rest| rest.split('\n').next()).expect("a time");
    assert!((500..10_000).contains(&retry.parse().expect("milliseconds")), "{retry}");
    let expected = format!(
        "retry: {retry}\n\ndata: {{\"goaway\":{{\"reason\":\"overloaded\",\"retry_ms\":{retry}}}}}\n\n"
    );
    assert_eq!(answer.body, expected);
    let mut other = EventStream::over(Dial::from("127.0.0.2").connect(server.public), "channels=news", "");
    assert!(!other.hello().recovered);

    drop(stream);
    server.await_phase(&hello.session, "suspended");
    // The first event of a refused stream sets the retry delay.
    let try_resume = || {
        let first = EventStream::open(server.public, &format!("resume={}", hello.resume)).event();
        first.contains("hello").then_some(first)
    };
    let greeting = eventually("the slot is free", try_resume);
    assert!(greeting.contains(r#""recovered":true"#), "{greeting}");
}

/// With this limit, an address may have 18 sockets, including those without a session.
#[test]
fn silent_sockets_of_an_address_make_room_for_its_clients() {
    let server =
        RunningServer::with(&["limits.max_connections_per_address=1", "limits.handshake_timeout=1m"]);
    let mut silent: Vec<_> = (0..18).map(|_| RawClient::connect(server.public)).collect();
    until("another client is answered", || {
        let mut client = RawClient::connect(server.public);
        let request = "GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        client.try_send(request).is_ok() && client.try_response().is_some()
    });
    silent.swap_remove(0).await_end();
}

/// Existing sessions may be resumed at any rate.
#[test]
fn session_rate_is_limited_per_address() {
    let server = RunningServer::with(&["limits.sessions_per_second_per_address=2"]);
    let client = server.client();
    until("the address opens too many", || Client::try_connect(server.public, "").err() == Some(OVERLOADED));
    assert!(server.admin.metrics().refusals("session_rate") >= 1.0);
    let resume = client.hello.resume.clone();
    for _ in 0..10 {
        assert!(server.resume(&resume).hello.recovered);
    }
}

/// Alerts use these metrics to warn before the server refuses clients because of a limit.
#[test]
fn metrics_show_usage_and_maximum_of_each_limit() {
    let backend = Backend::start();
    backend.reply_with_status(500);
    let webhook = format!(
        r#"webhook=[{{ url = "{}", events = ["session.opened"], secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", name = "crm", max_queued = 9 }}]"#,
        backend.url("/")
    );
    let server = Launch::with(&[
        IN_MEMORY,
        "limits.max_connections=10",
        "limits.max_sessions=20",
        "limits.max_handshakes=30",
        "limits.max_channels=40",
        "limits.max_reminders=0",
        "limits.max_admin_connections=60",
        "limits.receive_total=1MiB",
        "channel.history_total_bytes=2MiB",
        &format!("backend.call={}", backend.url("/call")),
        "backend.max_in_flight=70",
        &webhook,
    ])
    .start();
    let mut client = server.client();
    let _suspended = server.suspended_session();
    drop(client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#));
    server.admin.publish("news", "x".repeat(1000));
    until("one connection is left", || server.admin.metrics().connections() == 1.0);
    let metrics = server.admin.metrics();
    let limit = |kind: &str, key: &str| metrics.value(&format!("encke_limit_{kind}{{limit=\"{key}\"}}"));
    for (key, used, max) in [
        ("limits.max_connections", 1.0..=1.0, 10.0),
        ("limits.max_sessions", 2.0..=2.0, 20.0),
        ("limits.max_handshakes", 0.0..=1.0, 30.0),
        // The client's own channel, `$session`, is not counted.
        ("limits.max_channels", 1.0..=1.0, 40.0),
        ("limits.max_admin_connections", 1.0..=3.0, 60.0),
        ("limits.receive_total", 0.0..=0.0, 1_048_576.0),
        ("channel.history_total_bytes", 1000.0..=4000.0, 2_097_152.0),
        ("backend.max_in_flight", 0.0..=0.0, 70.0),
        ("webhook[crm].max_queued", 2.0..=2.0, 9.0),
    ] {
        assert!(used.contains(&limit("used", key)), "{key}: {}", limit("used", key));
        assert_eq!(limit("max", key), max, "{key}");
    }
    assert!(!metrics.text().contains("max_reminders"), "a disabled limit is not exported");
}
