use std::time::{Duration, Instant};

use encke_tests::events::request_events;
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

/// Retry delay that keeps an `EventSource` from reconnecting: 2^31 - 1 ms.
const NEVER: &str = "retry: 2147483647";

/// Returns the current epoch of a channel's log.
fn epoch(server: &RunningServer, channel: &str) -> String {
    let answer = server.admin.get(&format!("/api/channels/{channel}"));
    answer.json()["epoch"].as_str().expect("a channel has an epoch").to_owned()
}

/// Key of `news` in event ids: the first bytes of its SHA-256 digest.
const NEWS: &str = "19fba0e9";
/// Keys of `a` and `b`.
const A: &str = "ca978112";
const B: &str = "3e23e816";

/// Returns the event id after message `offset` of `news`, which is message `seq` of the session.
fn id_at(server: &RunningServer, token: &str, seq: u64, offset: u64) -> String {
    id_with(token, seq, &[position(server, "news", NEWS, offset)])
}

/// Returns an event id with these positions.
fn id_with(token: &str, seq: u64, positions: &[String]) -> String {
    format!("{token}:{seq};{}.", positions.join(","))
}

/// Returns a position in a channel, which has this key.
fn position(server: &RunningServer, channel: &str, key: &str, offset: u64) -> String {
    format!("{key}:{}:{offset}", epoch(server, channel))
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
                x-accel-buffering: no\r\nconnection: close\r\n";
    assert_eq!(events.head.split_once("date: ").map(|(before, _)| before), Some(head));
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
    let _socket = server.client();
    let sessions = server.admin.get("/api/sessions").json();
    let sessions = sessions["sessions"].as_array().expect("a list");
    let listed = sessions.iter().find(|listed| listed["id"] == session).expect("the session is listed");
    assert_eq!(listed["transport"], "sse");
    assert_eq!(server.admin.session(&session)["transport"], "sse");
    let sse = || server.admin.metrics().value(r#"encke_connections{transport="sse",dialect="json"}"#);
    assert_eq!((sse(), server.admin.metrics().connections()), (1.0, 1.0));

    server.admin.publish("news", 7);
    assert_eq!(events.event(), message(&server, &resume, 1, 1, 7));
    server.admin.publish("else", 8);
    server.admin.publish("news", 9);
    assert_eq!(events.event(), message(&server, &resume, 2, 2, 9));
    drop(events);
    until("the connection is not counted any more", || sse() == 0.0);
    assert_eq!(server.admin.phase(&session).as_deref(), Some("suspended"));
}

#[test]
fn reconnect_returns_later_messages_and_none_twice() {
    let server = RunningServer::with(&[]);
    let (mut events, hello) = EventStream::greeted(server.public, "channels=news");
    let token = &hello.resume;
    server.admin.publish_each("news", 1..=5);
    for number in 1..=5 {
        assert_eq!(events.event(), message(&server, token, number, number, number));
    }
    drop(events);
    server.await_phase(&hello.session, "suspended");
    server.admin.publish_each("news", 6..=7);
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
    server.admin.publish("news", 8);
    assert_eq!(again.event(), message(&server, token, 8, 8, 8));
    server.await_lifecycle(&hello.session, "opened connect, suspended connection_lost, resumed reconnect");
}

#[test]
fn last_event_id_takes_precedence_over_the_query() {
    let server = RunningServer::with(&[]);
    let ((old, hello), (other, other_hello)) = (
        EventStream::greeted(server.public, "channels=news"),
        EventStream::greeted(server.public, "channels=news"),
    );
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

/// The epoch of another position differs as it does after a restart, when the log's offsets start again.
#[test]
fn late_client_continues_in_a_new_session() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let (mut events, hello) = EventStream::greeted(server.public, "channels=news");
    server.admin.publish_each("news", 1..=3);
    (1..=2).for_each(|number| {
        assert_eq!(events.event(), message(&server, &hello.resume, number, number, number));
    });
    drop(events);
    server.await_removal(&hello.session);
    let id = id_at(&server, &hello.resume, 2, 2);
    let mut again = EventStream::reconnect(server.public, "channels=news", &id);
    let (hello_id, hello) = again.object();
    let hello = Hello::parse(hello);
    assert!(!hello.recovered && !id.starts_with(&hello.resume));
    assert_eq!(hello_id, Some(id_at(&server, &hello.resume, 0, 2)), "the position is unchanged");
    assert_eq!(again.event(), message(&server, &hello.resume, 1, 3, 3));

    let other_id = id.replace(&epoch(&server, "news"), "another");
    let mut other = EventStream::reconnect(server.public, "channels=news", &other_id);
    let hello = other.hello();
    let (gap_id, gap) = other.object();
    assert_eq!((&gap["gap"]["seq"], &gap["gap"]["from"]), (&json!(1), &Value::Null), "{gap}");
    assert_eq!(gap_id, Some(id_at(&server, &hello.resume, 1, 0)), "the gap is not sent again");
    for number in 1..=3 {
        assert_eq!(other.event(), message(&server, &hello.resume, number + 1, number, number));
    }
}

/// Nothing is lost or repeated, whichever of its channels a client asks for again, and in whichever order.
#[test]
fn positions_belong_to_channels() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let names: Vec<_> = (1..=9).map(|number| format!("c{number}")).collect();
    let (mut events, hello) = EventStream::greeted(server.public, &format!("channels={}", names.join(",")));
    for name in &names {
        server.admin.publish(name, 1);
    }
    let (id, _) = (0..9).map(|_| events.object()).last().expect("nine messages");
    let id = id.expect("an id");
    drop(events);
    server.await_removal(&hello.session);
    for name in names.iter().map(String::as_str).chain(["new"]) {
        server.admin.publish(name, 2);
    }
    for (number, channels) in ["c2", "c1,c3", "c9,c8,c7", "new,c4,c5"].into_iter().enumerate() {
        // Not every client can set the header, and some send an empty one.
        let query = format!("channels={channels}&lastEventId={id}");
        let mut again = match number % 3 {
            0 => EventStream::reconnect(server.public, &format!("channels={channels}"), &id),
            1 => EventStream::open(server.public, &query),
            _ => EventStream::open_with(server.public, &query, "Last-Event-ID: \r\n"),
        };
        assert!(!again.hello().recovered);
        for channel in channels.split(',').filter(|channel| *channel != "new") {
            let (_, object) = again.object();
            let message = &object["message"];
            assert_eq!((&message["channel"], &message["data"]), (&json!(channel), &json!(2)), "{channels}");
        }
        server.admin.publish(channels.split(',').next().expect("a channel"), 3);
        assert_eq!(again.object().1["message"]["data"], 3, "{channels}");
    }
}

/// A session delivers its channels even if the URL of its next stream does not name them, and the client may
/// return to such a channel later.
#[test]
fn ids_name_channels_that_the_url_does_not() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let message = |events: &mut EventStream| {
        let (id, object) = events.object();
        let message = &object["message"];
        (id.expect("messages have ids"), message["channel"].clone(), message["data"].clone())
    };
    let (mut first, hello) = EventStream::greeted(server.public, "channels=a");
    server.admin.publish("a", 1);
    let (id, ..) = message(&mut first);
    let mut second = EventStream::reconnect(server.public, "channels=b,c", &id);
    assert!(second.hello().recovered);
    server.admin.publish("a", 2);
    let (id, channel, data) = message(&mut second);
    assert_eq!((channel, data), (json!("a"), json!(2)));
    drop(second);
    server.await_removal(&hello.session);

    server.admin.publish("a", 3);
    let mut third = EventStream::reconnect(server.public, "channels=b,c", &id);
    let hello = third.hello();
    assert!(!hello.recovered);
    server.admin.publish("b", 4);
    let (id, channel, data) = message(&mut third);
    assert_eq!((channel, data), (json!("b"), json!(4)), "the new session is not subscribed to a");
    drop(third);
    server.await_removal(&hello.session);

    let mut fourth = EventStream::reconnect(server.public, "channels=a,b", &id);
    assert!(!fourth.hello().recovered);
    let (_, channel, data) = message(&mut fourth);
    assert_eq!((channel, data), (json!("a"), json!(3)), "the new ids have repeated the position");
}

/// The position in a channel to which a command has subscribed the session is unknown until its first message.
#[test]
fn ids_name_channels_of_commands() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let (mut events, hello) = EventStream::greeted(server.public, "channels=a");
    let query = format!("resume={}", hello.resume);
    for channel in ["b", "c"] {
        let command = json!({"id": 1, "subscribe": {"channel": channel}});
        let answer = PollClient::connect(server.public).post(&query, command).json();
        assert_eq!(answer[0]["reply"]["ok"]["channel"], channel, "{answer}");
    }
    server.admin.publish("b", 1);
    let (id, _) = events.object();
    let id = id.expect("messages have ids");
    drop(events);
    server.await_removal(&hello.session);
    ["b", "c"].iter().for_each(|channel| _ = server.admin.publish(channel, 2));
    let mut again = EventStream::reconnect(server.public, "channels=b,c,new", &id);
    assert!(!again.hello().recovered);
    let (first, second) = (again.object().1, again.object().1);
    let (gap, message) = if first["gap"].is_null() { (second, first) } else { (first, second) };
    assert_eq!((&message["message"]["channel"], &message["message"]["data"]), (&json!("b"), &json!(2)));
    assert_eq!((&gap["gap"]["channel"], &gap["gap"]["from"]), (&json!("c"), &Value::Null));
}

/// A client whose stream has had no event since a command has subscribed its session does not miss messages without
/// a gap, either.
#[test]
fn new_channels_are_named_by_an_id_without_data() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let (mut events, hello) = EventStream::greeted(server.public, "channels=news");
    let command = json!({"id": 1, "subscribe": {"channel": "a"}});
    for _ in 0..2 {
        let query = format!("resume={}", hello.resume);
        let answer = PollClient::connect(server.public).post(&query, &command).json();
        assert_eq!(answer[0]["reply"]["ok"]["channel"], "a", "{answer}");
    }
    let (news, a) = (position(&server, "news", NEWS, 0), position(&server, "a", A, u64::MAX));
    let with_a = id_with(&hello.resume, 0, &[news.clone(), a.clone()]);
    assert_eq!(events.event(), format!("id: {with_a}"));
    let path = format!("/api/sessions/{}/subscribe", hello.session);
    let subscribed = server.admin.post(&path, json!({"channel": "b"}));
    assert_eq!(subscribed.status, 200, "{subscribed:?}");
    let b = position(&server, "b", B, u64::MAX);
    let with_b = id_with(&hello.resume, 0, &[news, a, b]);
    assert_eq!(events.event(), format!("id: {with_b}"), "each id is sent once");
    let (_, notice) = events.object();
    assert_eq!(notice["subscribed"]["channel"], "b", "{notice}");
    server.admin.publish("news", 1);
    assert_eq!(events.object().1["message"]["seq"], 1, "an id without data has no seq");
    drop(events);
    server.await_removal(&hello.session);
    server.admin.publish("a", 1);
    let mut again = EventStream::reconnect(server.public, "channels=news,a,new", &with_a);
    assert!(!again.hello().recovered);
    let (first, second) = (again.object().1, again.object().1);
    let (gap, message) = if first["gap"].is_null() { (second, first) } else { (first, second) };
    assert_eq!((&gap["gap"]["channel"], &gap["gap"]["from"]), (&json!("a"), &Value::Null), "{gap}");
    assert_eq!(message["message"]["channel"], "news", "{message}");
}

/// A page's URL is the same each time, so the position in the event id takes precedence over `last`.
#[test]
fn stream_may_begin_with_the_newest_messages() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    server.admin.publish_each("news", 1..=3);
    let mut events = EventStream::open(server.public, "channels=news&last=2");
    let (hello_id, hello) = events.object();
    let hello = Hello::parse(hello);
    // The position is before the newest messages.
    assert_eq!(hello_id, Some(id_at(&server, &hello.resume, 0, 1)));
    for (seq, number) in [(1, 2), (2, 3)] {
        assert_eq!(events.event(), message(&server, &hello.resume, seq, number, number));
    }
    let id = id_at(&server, &hello.resume, 2, 3);
    drop(events);
    server.await_removal(&hello.session);
    server.admin.publish("news", 4);
    let mut again = EventStream::reconnect(server.public, "channels=news&last=2", &id);
    let hello = again.hello();
    assert_eq!(again.event(), message(&server, &hello.resume, 1, 4, 4), "no message is sent twice");
    let answer = request_events(server.public, "channels=news&last=x", "");
    answer.assert_error(400, "bad_request");
}

/// A client without a valid position also starts with the next message. It has had a stream before, unless its
/// id is empty.
#[test]
fn client_with_an_invalid_id_gets_a_new_session() {
    let server = RunningServer::with(&[]);
    server.admin.publish("news", 1);
    for (id, has_missed) in [
        ("s_nonsense:0", true),
        (":7", true),
        ("s_a.b:7;e:1,e:1.", true),
        ("s_a.b:7;e.", true),
        ("s_a.b:7;.", true),
        ("s_a.b:7;19fba0e9:e:+1.", true),
        (&format!("s_a.b:7;{}.", "000000ff:e:1,".repeat(200)), true),
        ("s_a.b", true),
        ("x", true),
        ("\u{e9}", true),
        ("", false),
    ] {
        let mut events = EventStream::reconnect(server.public, "channels=news", id);
        let (hello_id, hello) = events.object();
        let hello = Hello::parse(hello);
        assert!(!hello.recovered, "{id}");
        if has_missed {
            let at = |seq, offset| {
                let positions = [position(&server, "news", NEWS, offset), "*".to_owned()];
                Some(id_with(&hello.resume, seq, &positions))
            };
            assert_eq!(hello_id, at(0, u64::MAX), "{id}");
            let (gap_id, gap) = events.object();
            assert_eq!((&gap["gap"]["channel"], &gap["gap"]["from"]), (&json!("news"), &Value::Null), "{id}");
            assert_eq!(gap_id, at(1, 1), "{id}");
        } else {
            assert_eq!(hello_id, Some(id_at(&server, &hello.resume, 0, 1)), "{id}");
        }
    }
    // A new session would have no subscriptions.
    request_events(server.public, "resume=s_nonsense", "").assert_error(410, "gone");
    let answer = request_events(server.public, "channels=news", "Last-Event-ID: end\r\n");
    assert_eq!((answer.status, &*answer.body), (204, ""), "{answer:?}");
}

/// A truncated id names too few channels, or a wrong offset, so that messages would be lost or repeated without a gap.
/// It still resumes a session.
#[test]
fn truncated_ids_have_no_positions() {
    let server = RunningServer::with(&["session.reconnect_window=300ms"]);
    let (mut events, hello) = EventStream::greeted(server.public, "channels=news,a");
    for number in 1..=12 {
        server.admin.publish("news", number);
        events.object();
    }
    server.admin.publish("a", 1);
    let id = events.object().0.expect("messages have ids");
    let positions = [position(&server, "news", NEWS, 12), position(&server, "a", A, 1)];
    assert_eq!(id, id_with(&hello.resume, 13, &positions));
    let end = id.find(',').expect("two positions");
    let truncated = [&id[..end - 1], &id[..end], &id[..=end], &id[..id.len() - 1]];
    for id in truncated {
        let mut again = EventStream::reconnect(server.public, "channels=news,a", id);
        assert!(again.hello().recovered, "{id}");
        server.admin.publish("a", 2);
        assert_eq!(again.object().1["message"]["channel"], "a", "{id}");
        events = again;
    }
    drop(events);
    server.await_removal(&hello.session);
    for id in truncated {
        let mut again = EventStream::reconnect(server.public, "channels=news,a", id);
        assert!(!again.hello().recovered, "{id}");
        let mut gaps = [0; 2].map(|_| again.object().1["gap"]["channel"].clone());
        gaps.sort_by_key(Value::to_string);
        assert_eq!(gaps, ["a", "news"], "{id}");
    }
}

#[test]
fn invalid_requests_are_refused() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    for query in ["", "channels=", "channels=a,", "channels=a,b,c", "channels=a&seq=x", "seq=1"] {
        let answer = request_events(server.public, query, "");
        assert_eq!((answer.status, &*answer.error_code()), (400, "bad_request"), "{query}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);
}

/// A kick is reported to the next connection, too, because the client may not have received the reason.
#[test]
fn the_last_event_has_the_reason_and_the_retry_delay() {
    let server = RunningServer::with(&[]);
    let (first, hello) = EventStream::greeted(server.public, "channels=news");
    let id = id_at(&server, &hello.resume, 0, 0);
    let reconnect = || {
        let mut again = EventStream::reconnect(server.public, "channels=news", &id);
        assert!(again.hello().recovered);
        again
    };
    let second = reconnect();
    assert_eq!(first.to_end(), [NEVER, &goaway("replaced")]);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    let last = r#"data: {"goaway":{"reason":"disconnected","retry_ms":1000}}"#;
    assert_eq!(second.to_end(), ["retry: 1000", last]);
    let mut third = reconnect();
    server.admin.publish("news", 1);
    assert_eq!(third.event(), message(&server, &hello.resume, 1, 1, 1));
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    assert_eq!(third.to_end(), [NEVER, &goaway("kicked")]);
    server.await_lifecycle(
        &hello.session,
        "opened connect, resumed take_over, suspended disconnected, resumed reconnect, closed kicked",
    );
    let reconnect = || request_events(server.public, "", &format!("Last-Event-ID: {id}\r\n"));
    assert!(reconnect().body.contains(r#""reason":"kicked""#));
    assert_eq!(reconnect().status, 410);
}

#[test]
fn drain_advises_when_to_reconnect() {
    let mut server = RunningServer::with(&[]);
    let (events, _) = EventStream::greeted(server.public, "channels=news");
    server.terminate();
    let received = events.to_end();
    let [retry, goaway] = &received[..] else { panic!("{received:?}") };
    let retry: u64 = retry.strip_prefix("retry: ").expect("a time").parse().expect("in milliseconds");
    assert!((500..10_000).contains(&retry), "{retry}");
    let expected = format!("data: {{\"goaway\":{{\"reason\":\"draining\",\"retry_ms\":{retry}}}}}");
    assert_eq!(*goaway, expected);
    assert!(server.await_exit().success());
}

/// The client keeps its event id and continues from it in a new session.
#[test]
fn client_of_an_ended_session_is_asked_to_reconnect() {
    let server = RunningServer::with(&["session.lifetime=500ms", "session.idle=200ms"]);
    let (events, hello) = EventStream::greeted(server.public, "channels=news");
    let last = "data: {\"goaway\":{\"reason\":\"lifetime\",\"retry_ms\":1000}}";
    assert_eq!(events.to_end(), ["retry: 1000", last], "a stream cannot send commands, so it is never idle");
    server.await_lifecycle(&hello.session, "opened connect, closed lifetime");
    let mut again = EventStream::open(server.public, "channels=news");
    assert!(!again.hello().recovered);
}

/// Each channel of a stream counts as a command. Excess subscriptions are delayed, because nothing would read
/// an error.
#[test]
fn subscriptions_beyond_the_rate_are_delayed() {
    let server = RunningServer::with(&["limits.commands_per_second=10"]);
    let channels: Vec<_> = (0..20).map(|number| format!("channel{number}")).collect();
    let began = Instant::now();
    let (mut events, _) = EventStream::greeted(server.public, &format!("channels={}", channels.join(",")));
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(900), "{after:?}");
    server.admin.publish("channel19", 1);
    assert_eq!(events.object().1["message"]["channel"], "channel19");
}

#[test]
fn subscriptions_count_against_the_rate_of_the_user() {
    let server = RunningServer::with_tokens(&["limits.user_commands_per_second=4"]);
    let token = token("alice", json!({}));
    let began = Instant::now();
    for number in 0..2 {
        let query = format!("channels=a{number},b{number},c{number},d{number}&token={token}");
        EventStream::open(server.public, &query).hello();
    }
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(900), "the sessions of a user share a rate: {after:?}");
}
