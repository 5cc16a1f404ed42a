use std::time::{Duration, Instant};

use encke_tests::events::request_events;
use encke_tests::raw::Dial;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Client, EventStream, Hello, Launch, RunningServer};
use serde_json::{Value, json};

/// Retry delay that keeps an `EventSource` from reconnecting: 2^31 - 1 ms.
const NEVER: &str = "retry: 2147483647";

/// Opens a stream of a channel. Returns the stream and its hello.
fn open_stream(server: &RunningServer, channel: &str) -> (EventStream, Hello) {
    let mut events = EventStream::open(server.public, &format!("channels={channel}"));
    let hello = events.hello();
    (events, hello)
}

fn publish(client: &mut Client, channel: &str, data: impl Into<Value>) {
    let data: Value = data.into();
    let reply = client.request(&format!(r#"{{"id":1,"publish":{{"channel":"{channel}","data":{data}}}}}"#));
    assert!(reply["ok"]["offset"].is_u64(), "{reply}");
}

/// Returns the current epoch of a channel's log.
fn epoch(server: &RunningServer, channel: &str) -> String {
    let answer = server.admin.get(&format!("/api/channels/{channel}"));
    answer.json()["epoch"].as_str().expect("a channel has an epoch").to_owned()
}

/// Returns the event id after message `offset` of `news`, which is message `seq` of the session.
fn id_at(server: &RunningServer, token: &str, seq: u64, offset: u64) -> String {
    format!("{token}:{seq};{}:{offset}", epoch(server, "news"))
}

/// Returns the event with message `offset` of `news`, which is message `seq` of the session.
fn message(server: &RunningServer, token: &str, seq: u64, offset: u64, data: u64) -> String {
    let id = id_at(server, token, seq, offset);
    format!(
        "id: {id}\n\
         data: {{\"message\":{{\"seq\":{seq},\"channel\":\"news\",\"offset\":{offset},\"data\":{data}}}}}"
    )
}

/// Returns the last event for a client that must not reconnect.
fn goaway(reason: &str) -> String {
    format!("id: end\ndata: {{\"goaway\":{{\"reason\":\"{reason}\",\"retry_ms\":2147483647}}}}")
}

#[test]
fn head_and_events_have_the_documented_bytes() {
    let server = RunningServer::with(&[]);
    let mut events = EventStream::open(server.public, "channels=news");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
                x-accel-buffering: no\r\nconnection: close\r\n\r\n";
    assert_eq!(events.head, head);
    let first = events.event();
    let (id, data) = first.split_once('\n').expect("two lines");
    let json = data.strip_prefix("data: ").expect("data");
    let Hello { session, resume, .. } = Hello::parse(serde_json::from_str(json).expect("it is JSON"));
    assert_eq!(id, format!("id: {}", id_at(&server, &resume, 0, 0)));
    let hello = format!(
        "data: {{\"hello\":{{\"version\":1,\"session\":\"{session}\",\"resume\":\"{resume}\",\"recovered\":false,\
         \"seq\":0,\"ping_interval_ms\":25000,\"pong_timeout_ms\":10000,\"reconnect_window_ms\":120000}}}}"
    );
    assert_eq!(data, hello);

    let mut publisher = server.client();
    publish(&mut publisher, "news", 7);
    assert_eq!(events.event(), message(&server, &resume, 1, 1, 7));
    publish(&mut publisher, "else", 8);
    publish(&mut publisher, "news", 9);
    assert_eq!(events.event(), message(&server, &resume, 2, 2, 9));
}

#[test]
fn several_channels_in_one_stream() {
    let server = RunningServer::with(&[]);
    let (mut events, hello) = open_stream(&server, "news,chat");
    let mut publisher = server.client();
    for (seq, channel) in (1_u64..).zip(["news", "chat", "news"]) {
        publish(&mut publisher, channel, seq);
        let (id, object) = events.object();
        let (news, chat) = (epoch(&server, "news"), epoch(&server, "chat"));
        let (in_news, in_chat) = (seq.div_ceil(2), seq / 2);
        assert_eq!(id, Some(format!("{}:{seq};{news}:{in_news},{chat}:{in_chat}", hello.resume)));
        assert_eq!(
            (&object["message"]["channel"], &object["message"]["data"]),
            (&json!(channel), &json!(seq))
        );
    }
}

#[test]
fn reconnect_returns_later_messages_and_none_twice() {
    let server = RunningServer::with(&[]);
    let (mut events, hello) = open_stream(&server, "news");
    let token = &hello.resume;
    let mut publisher = server.client();
    for number in 1..=5 {
        publish(&mut publisher, "news", number);
    }
    for number in 1..=5 {
        assert_eq!(events.event(), message(&server, token, number, number, number));
    }
    drop(events);
    server.await_phase(&hello.session, "suspended");
    for number in 6..=7 {
        publish(&mut publisher, "news", number);
    }
    // This event id claims that three messages were received, although five were sent.
    let three = id_at(&server, token, 3, 3);
    let mut again = EventStream::reconnect(server.public, "channels=news", &three);
    let (id, object) = again.object();
    assert_eq!(id, Some(three));
    let greeting = Hello::parse(object);
    assert!(greeting.recovered);
    assert_eq!((&greeting.session, &greeting.resume), (&hello.session, token));
    assert_eq!(greeting.object["hello"]["seq"], 3);
    for number in 4..=7 {
        assert_eq!(again.event(), message(&server, token, number, number, number));
    }
    publish(&mut publisher, "news", 8);
    assert_eq!(again.event(), message(&server, token, 8, 8, 8));
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &events);
}

#[test]
fn last_event_id_takes_precedence_over_the_query() {
    let server = RunningServer::with(&[]);
    let ((old, hello), (other, other_hello)) = (open_stream(&server, "news"), open_stream(&server, "news"));
    drop((old, other));
    for session in [&hello.session, &other_hello.session] {
        server.await_phase(session, "suspended");
    }
    let query = format!("resume={}&seq=0", other_hello.resume);
    let mut again = EventStream::reconnect(server.public, &query, &format!("{}:0", hello.resume));
    assert_eq!(again.hello().session, hello.session);
    assert_eq!(server.admin.phase(&other_hello.session).as_deref(), Some("suspended"));
    let mut by_query = EventStream::open(server.public, &query);
    assert_eq!(by_query.hello().session, other_hello.session, "without an id, the query is used");
}

#[test]
fn a_session_may_change_its_transport() {
    let server = RunningServer::with(&[]);
    let (events, hello) = open_stream(&server, "news");
    drop(events);
    server.await_phase(&hello.session, "suspended");
    let mut publisher = server.client();
    publish(&mut publisher, "news", 1);
    let mut socket = Client::connect(server.public, &format!("resume={}&seq=0", hello.resume));
    assert!(socket.hello.recovered);
    assert_eq!(socket.object()["message"]["data"], 1);
    assert_eq!(server.admin.session(&hello.session)["transport"], "websocket");
    let mut again = EventStream::reconnect(server.public, "", &format!("{}:1", hello.resume));
    assert!(again.hello().recovered);
    assert_eq!(socket.close_code(), Some(4100));
    publish(&mut publisher, "news", 2);
    // The stream requests no channels, so its ids have no positions.
    assert_eq!(again.object().0, Some(format!("{}:2", hello.resume)));
}

/// Leaves behind an expired session, and three messages in `news`, two of which the session's client has
/// received. Returns the event id with which the client reconnects.
fn leave_behind(server: &RunningServer) -> String {
    let (mut events, hello) = open_stream(server, "news");
    let mut publisher = server.client();
    (1..=3).for_each(|number| publish(&mut publisher, "news", number));
    (1..=2).for_each(|number| {
        assert_eq!(events.event(), message(server, &hello.resume, number, number, number));
    });
    drop(events);
    server.await_removal(&hello.session);
    id_at(server, &hello.resume, 2, 2)
}

#[test]
fn late_client_continues_in_a_new_session() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let id = leave_behind(&server);
    let mut again = EventStream::reconnect(server.public, "channels=news", &id);
    let (hello_id, hello) = again.object();
    let hello = Hello::parse(hello);
    assert!(!hello.recovered && !id.starts_with(&hello.resume));
    assert_eq!(hello_id, Some(id_at(&server, &hello.resume, 0, 2)), "the position is unchanged");
    assert_eq!(again.event(), message(&server, &hello.resume, 1, 3, 3));
    publish(&mut server.client(), "news", 4);
    assert_eq!(again.event(), message(&server, &hello.resume, 2, 4, 4));
}

/// A page's URL is the same each time, so the position in the event id takes precedence over `last`.
#[test]
fn stream_may_begin_with_the_newest_messages() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let mut publisher = server.client();
    (1..=3).for_each(|number| publish(&mut publisher, "news", number));
    let mut events = EventStream::open(server.public, "channels=news&last=2");
    let (hello_id, hello) = events.object();
    let hello = Hello::parse(hello);
    assert_eq!(
        hello_id,
        Some(id_at(&server, &hello.resume, 0, 1)),
        "the position is before the newest messages"
    );
    for (seq, number) in [(1, 2), (2, 3)] {
        assert_eq!(events.event(), message(&server, &hello.resume, seq, number, number));
    }
    let id = id_at(&server, &hello.resume, 2, 3);
    drop(events);
    server.await_removal(&hello.session);
    publish(&mut publisher, "news", 4);
    let mut again = EventStream::reconnect(server.public, "channels=news&last=2", &id);
    let hello = again.hello();
    assert_eq!(again.event(), message(&server, &hello.resume, 1, 4, 4), "no message is sent twice");
    let answer = request_events(server.public, "channels=news&last=x", "");
    assert_eq!((answer.status, &*answer.error_code()), (400, "bad_request"), "{answer:?}");
}

/// The epoch differs as it does after a restart, when the log's offsets start again.
#[test]
fn messages_of_another_epoch_are_a_gap() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let id = leave_behind(&server).replace(&epoch(&server, "news"), "another");
    let mut again = EventStream::reconnect(server.public, "channels=news", &id);
    let hello = again.hello();
    let (gap_id, gap) = again.object();
    assert_eq!((&gap["gap"]["seq"], &gap["gap"]["from"]), (&json!(1), &Value::Null), "{gap}");
    assert_eq!(gap_id, Some(format!("{}:1;another:2", hello.resume)), "the gap would be sent again");
    for number in 1..=3 {
        assert_eq!(again.event(), message(&server, &hello.resume, number + 1, number, number));
    }
}

/// A client without a valid position also starts with the next message.
#[test]
fn client_with_an_invalid_id_gets_a_new_session() {
    let server = RunningServer::with(&[]);
    publish(&mut server.client(), "news", 1);
    let nine = (1..=9).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    for id in ["s_nonsense:0", ":7", "s_a.b:7;e:1,e:1", "s_a.b:7;e", "x", ""] {
        let mut events = EventStream::reconnect(server.public, "channels=news", id);
        let (hello_id, hello) = events.object();
        let hello = Hello::parse(hello);
        assert!(!hello.recovered, "{id}");
        assert_eq!(hello_id, Some(id_at(&server, &hello.resume, 0, 1)), "{id}");
    }
    let mut many = EventStream::reconnect(server.public, &format!("channels={nine}"), "s_nonsense:0");
    let (id, hello) = many.object();
    assert_eq!(
        id,
        Some(format!("{}:0", Hello::parse(hello).resume)),
        "with many channels, an id has no positions"
    );
    let answer = request_events(server.public, "resume=s_nonsense", "");
    assert_eq!(
        (answer.status, &*answer.error_code()),
        (410, "gone"),
        "a new session would have no subscriptions"
    );
    let answer = request_events(server.public, "channels=news", "Last-Event-ID: end\r\n");
    assert_eq!((answer.status, &*answer.body), (204, ""), "{answer:?}");
}

#[test]
fn invalid_requests_are_refused() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    for query in ["", "channels=", "channels=a,", "channels=a,b,c", "channels=a&seq=x", "seq=1"] {
        let answer = request_events(server.public, query, "");
        assert_eq!((answer.status, &*answer.error_code()), (400, "bad_request"), "{query}");
    }
    for method in ["HEAD", "POST", "PUT", "DELETE"] {
        let request = format!(
            "{method} /events?channels=news HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            server.public
        );
        let answer = encke_tests::admin::send_request(server.public, &request);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, OPTIONS")), "{method}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);
}

#[test]
fn heartbeats_are_comments() {
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let began = Instant::now();
    let (mut events, hello) = open_stream(&server, "news");
    for _ in 0..3 {
        assert_eq!(events.block().as_deref(), Some(":"));
    }
    // The first heartbeat is sent after half an interval to a whole one, and each has 100 ms of slack.
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(2_500), "{after:?}");
    assert!(after <= Duration::from_millis(3_300) + MAX_LATENESS, "{after:?}");
    publish(&mut server.client(), "news", 1);
    assert_eq!(events.event(), message(&server, &hello.resume, 1, 1, 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn the_second_stream_wins() {
    let server = RunningServer::with(&[]);
    let (first, hello) = open_stream(&server, "news");
    let id = format!("{}:0", hello.resume);
    let mut second = EventStream::reconnect(server.public, "channels=news", &id);
    assert!(second.hello().recovered);
    assert_eq!(first.to_end(), [NEVER, &goaway("replaced")]);
    publish(&mut server.client(), "news", 1);
    assert_eq!(second.event(), message(&server, &hello.resume, 1, 1, 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("resumed", "take_over")]);
}

#[test]
fn kicked_client_receives_the_reason() {
    let server = RunningServer::with(&[]);
    let (events, hello) = open_stream(&server, "news");
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    assert_eq!(events.to_end(), [NEVER, &goaway("kicked")]);
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "kicked")]);
    let reconnect = || request_events(server.public, "", &format!("Last-Event-ID: {}:0\r\n", hello.resume));
    assert!(
        reconnect().body.contains(r#""reason":"kicked""#),
        "sent once more, because the client may not have received it"
    );
    assert_eq!(reconnect().status, 410);
}

#[test]
fn disconnected_client_may_reconnect_soon() {
    let server = RunningServer::with(&[]);
    let (events, hello) = open_stream(&server, "news");
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    let last = r#"data: {"goaway":{"reason":"disconnected","retry_ms":1000}}"#;
    assert_eq!(events.to_end(), ["retry: 1000", last]);
    let mut again = EventStream::reconnect(server.public, "", &format!("{}:0", hello.resume));
    assert!(again.hello().recovered);
}

#[test]
fn drain_advises_when_to_reconnect() {
    let mut server = RunningServer::with(&[]);
    let (events, _) = open_stream(&server, "news");
    server.terminate();
    let received = events.to_end();
    let [retry, goaway] = &received[..] else { panic!("{received:?}") };
    let retry: u64 = retry.strip_prefix("retry: ").expect("a time").parse().expect("in milliseconds");
    assert!((500..10_000).contains(&retry), "{retry}");
    let expected = format!("data: {{\"goaway\":{{\"reason\":\"draining\",\"retry_ms\":{retry}}}}}");
    assert_eq!(*goaway, expected);
    assert!(server.await_exit(TIMEOUT).success());
}

/// The client keeps its event id and continues from it in a new session.
#[test]
fn client_of_an_ended_session_is_asked_to_reconnect() {
    let server = RunningServer::with(&["session.lifetime=500ms", "session.idle=200ms"]);
    let (events, hello) = open_stream(&server, "news");
    let last = "data: {\"goaway\":{\"reason\":\"lifetime\",\"retry_ms\":1000}}";
    assert_eq!(events.to_end(), ["retry: 1000", last], "a stream cannot send commands, so it is never idle");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "lifetime")]);
    let mut again = EventStream::open(server.public, "channels=news");
    assert!(!again.hello().recovered);
}

#[test]
fn pages_of_an_allowed_origin_may_read() {
    let server = Launch::default().set(r#"auth.origins=["https://app.example"]"#).start();
    let origin = "Origin: https://app.example\r\n";
    let events = EventStream::open_with(server.public, "channels=news", origin);
    let allowed = "\r\naccess-control-allow-origin: https://app.example\r\nvary: origin\r\n\r\n";
    assert!(events.head.ends_with(allowed), "{}", events.head);
    // A page may read error responses, too.
    let answer = request_events(server.public, "", origin);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    let preflight = |origin: &str| {
        let request = format!(
            "OPTIONS /events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: last-event-id\r\n\r\n",
            server.public
        );
        encke_tests::admin::send_request(server.public, &request)
    };
    let answer = preflight("https://app.example");
    assert_eq!((answer.status, &*answer.body), (204, ""), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("last-event-id"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET"));
    for foreign in ["https://evil.example", "null"] {
        assert_eq!(preflight(foreign).status, 403);
        let answer = request_events(server.public, "channels=news", &format!("Origin: {foreign}\r\n"));
        assert_eq!((answer.status, &*answer.error_code()), (403, "forbidden"), "{foreign}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
}

/// The client is disconnected after `write_timeout`, although the kernel would drop the connection after
/// `pong_timeout`.
#[test]
fn client_that_does_not_read_is_disconnected() {
    let server = RunningServer::with(&[
        "session.write_timeout=4s",
        "session.ping_interval=20s",
        "session.pong_timeout=2s",
        "limits.commands_per_second=100000",
    ]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut events = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = events.hello();
    let mut publisher = server.client();
    let data = "x".repeat(50_000);
    let began = Instant::now();
    while server.admin.phase(&hello.session).as_deref() == Some("attached") {
        assert!(began.elapsed() < TIMEOUT, "the client is disconnected in time");
        publish(&mut publisher, "news", &*data);
    }
    assert!(began.elapsed() >= Duration::from_secs(4), "disconnected after {:?}", began.elapsed());
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    server.assert_healthy();
}

#[test]
fn forgotten_messages_are_reported_as_a_gap() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let (mut events, hello) = open_stream(&server, "news");
    let token = &hello.resume;
    let mut publisher = server.client();
    for number in 1..=40 {
        publish(&mut publisher, "news", number);
        // Delivery does not wait for acknowledgements, which this client does not send.
        assert_eq!(events.event(), message(&server, token, number, number, number));
    }
    drop(events);
    server.await_phase(&hello.session, "suspended");
    let mut again = EventStream::reconnect(server.public, "channels=news", &format!("{token}:10"));
    let hello = again.hello();
    assert!(hello.recovered);
    let (id, object) = again.object();
    let gap = &object["gap"];
    assert_eq!(
        (&gap["channel"], &gap["seq"], &gap["to"]),
        (&json!("news"), &json!(24), &json!(24)),
        "{object}"
    );
    assert!(
        gap["from"].as_u64().is_some_and(|from| from <= 11),
        "the gap covers all lost messages: {object}"
    );
    assert_eq!(id, Some(id_at(&server, token, 24, 24)));
    for number in 25..=40 {
        assert_eq!(again.event(), message(&server, token, number, number, number));
    }
    publish(&mut publisher, "news", 41);
    assert_eq!(again.event(), message(&server, token, 41, 41, 41));
}

#[test]
fn stream_is_listed_with_its_transport() {
    let server = RunningServer::with(&[]);
    let (events, hello) = open_stream(&server, "news");
    let _socket = server.client();
    let sessions = server.admin.get("/api/sessions").json();
    let sessions = sessions["sessions"].as_array().expect("a list").clone();
    let of = |id: &str| {
        sessions.iter().find(|session| session["id"] == id).expect("the session is listed").clone()
    };
    assert_eq!(of(&hello.session)["transport"], "sse");
    assert_eq!(server.admin.session(&hello.session)["transport"], "sse");
    let sse = || server.admin.metrics().value(r#"encke_connections{transport="sse",dialect="json"}"#);
    assert_eq!((sse(), server.admin.metrics().connections()), (1.0, 1.0));
    drop(events);
    until("the connection is not counted any more", || sse() == 0.0);
    assert_eq!(server.admin.session(&hello.session)["phase"], "suspended");
}

/// Each channel of a stream counts as a command. Excess subscriptions are delayed, because nothing would read
/// an error.
#[test]
fn subscriptions_beyond_the_rate_are_delayed() {
    let server = RunningServer::with(&["limits.commands_per_second=10"]);
    let channels: Vec<_> = (0..30).map(|number| format!("channel{number}")).collect();
    let began = Instant::now();
    let mut events = EventStream::open(server.public, &format!("channels={}", channels.join(",")));
    events.hello();
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(1_800), "{after:?}");
    server.admin.post("/api/publish", r#"{"channel":"channel29","data":1}"#);
    assert_eq!(events.object().1["message"]["channel"], "channel29");
}

#[test]
fn subscriptions_count_against_the_rate_of_the_user() {
    let server = Launch::with(&["limits.user_commands_per_second=4"])
        .environment("ENCKE_AUTH__SECRET", SECRET)
        .start();
    let token =
        sign(&json!({"sub": "alice", "exp": 4_000_000_000_u64, "channels": {"*": ["subscribe"]}}), SECRET);
    let began = Instant::now();
    for number in 0..3 {
        let query = format!("channels=a{number},b{number},c{number},d{number}&token={token}");
        EventStream::open(server.public, &query).hello();
    }
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(1_800), "the sessions of a user share a rate: {after:?}");
}
