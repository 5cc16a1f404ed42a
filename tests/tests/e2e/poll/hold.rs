use std::time::{Duration, Instant};

use encke_tests::admin::HttpResponse;
use encke_tests::waiting::{MAX_LATENESS, eventually, let_pass};
use encke_tests::{Hello, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{await_held, await_polls, command_query, hello, message, open, poll_query};

const SUPERSEDED: u16 = 409;

#[track_caller]
fn assert_superseded(answer: &HttpResponse) {
    assert_eq!((answer.status, answer.header("retry-after")), (SUPERSEDED, Some("1")), "{answer:?}");
    assert_eq!(answer.error_code(), "superseded");
}

#[test]
fn a_new_session_is_greeted_at_once() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let answer = requests.get("channels=news,chat");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let hello = hello(&answer.json());
    assert!(!hello.recovered);
    assert_eq!(hello.object["hello"]["seq"], 0);
    let session = server.admin.session(&hello.session);
    assert_eq!((&session["transport"], &session["dialect"]), (&json!("poll"), &json!("json")));
    assert_eq!(session["phase"], "attached", "also between polls");
    server.admin.publish("chat", 1);
    let next = requests.get(&poll_query(&hello, 0)).json();
    assert_eq!(next[0]["message"]["channel"], "chat");
}

#[test]
fn a_poll_is_held_until_a_message_arrives() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    server.admin.publish("news", 7);
    assert_eq!(requests.response().json(), json!([message(1, 1, 7)]));
    server.admin.publish("news", 8);
    server.admin.publish("news", 9);
    assert_eq!(requests.get(&poll_query(&hello, 1)).json(), json!([message(2, 2, 8), message(3, 3, 9)]));
    await_polls(&server, 0);
}

#[test]
fn an_idle_poll_is_answered_after_the_hold() {
    let hold = Duration::from_secs(1);
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let (mut requests, hello) = open(&server, "news");
    let from = Instant::now();
    let answer = requests.get(&poll_query(&hello, 0));
    let after_hold = from.elapsed();
    assert_eq!(answer.body, "[]");
    assert!(after_hold >= hold && after_hold < hold + MAX_LATENESS, "{after_hold:?}");
}

/// The `seq` of the next poll is an acknowledgement. Each time a response is lost, it is repeated.
#[test]
fn a_lost_response_is_repeated() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    for number in 1..=3 {
        server.admin.publish("news", number);
    }
    let all = json!([message(1, 1, 1), message(2, 2, 2), message(3, 3, 3)]);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), all);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), all);
    // Poll on another connection without stating what has been received.
    let mut other = PollClient::connect(server.public);
    assert_eq!(other.get(&command_query(&hello)).json(), all);
    assert_eq!(other.get(&poll_query(&hello, 2)).json(), json!([message(3, 3, 3)]));
    server.admin.publish("news", 4);
    assert_eq!(other.get(&poll_query(&hello, 3)).json(), json!([message(4, 4, 4)]));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_thousand_polls_cause_one_lifecycle_event() {
    const CYCLES: u64 = 1000;
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let (mut requests, hello) = open(&server, "news");
    for number in 1..=CYCLES {
        let body = format!(r#"{{"id":{number},"publish":{{"channel":"news","data":{number}}}}}"#);
        assert_eq!(requests.post(&command_query(&hello), &body).status, 200);
        let answer = requests.get(&poll_query(&hello, number - 1)).json();
        assert_eq!(answer, json!([message(number, number, number)]));
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
    assert_eq!(server.logs.count(&hello.session), 1, "{}", server.logs.text());
    assert_eq!(server.admin.metrics().sessions("attached"), 1.0);
}

#[test]
fn a_second_poll_supersedes_the_first() {
    let server = RunningServer::with(&[]);
    let (mut first, hello) = open(&server, "news");
    first.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    let mut second = PollClient::connect(server.public);
    second.send_get(&poll_query(&hello, 0));
    assert_superseded(&first.response());
    await_held(&server, &hello);
    server.admin.publish("news", 1);
    assert_eq!(second.response().json(), json!([message(1, 1, 1)]));
    // The first poll's connection stays usable.
    server.admin.publish("news", 2);
    assert_eq!(first.get(&poll_query(&hello, 1)).json(), json!([message(2, 2, 2)]));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_websocket_takes_the_session_over() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    let mut socket = server.resume(&hello.resume);
    assert!(socket.hello.recovered);
    assert_eq!(super::goaway(&requests.response().json()), "replaced");
    server.admin.publish("news", 1);
    assert_eq!(socket.object(), message(1, 1, 1));
    // A poll takes back the session.
    requests.send_get(&poll_query(&hello, 1));
    assert_eq!(socket.close_code(), Some(4100));
    server.admin.publish("news", 2);
    assert_eq!(requests.response().json(), json!([message(2, 2, 2)]));
    let events = [("opened", "connect"), ("resumed", "take_over"), ("resumed", "take_over")];
    server.logs.await_lifecycle(&hello.session, &events);
}

/// The client disconnects while its poll is held.
#[test]
fn nothing_is_lost_with_an_abandoned_poll() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    for number in 1..=20 {
        requests.send_get(&poll_query(&hello, number - 1));
        await_held(&server, &hello);
        drop(requests);
        server.admin.publish("news", number);
        await_polls(&server, 0);
        requests = PollClient::connect(server.public);
        assert_eq!(
            requests.get(&poll_query(&hello, number - 1)).json(),
            json!([message(number, number, number)])
        );
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

/// A response carries about 64 KiB; the rest follows in the next one.
#[test]
fn a_backlog_is_split_over_several_responses() {
    const LONG: usize = 10_000;
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    for number in 1..=50 {
        server.admin.publish("news", format!("{number} {}", "x".repeat(LONG)));
    }
    let (mut seq, mut answers) = (0, 0);
    while seq < 50 {
        let answer = requests.get(&poll_query(&hello, seq));
        assert!(answer.body.len() < 64 * 1024 + 2 * LONG, "{}", answer.body.len());
        for object in answer.json().as_array().expect("an array") {
            seq += 1;
            assert_eq!(object["message"]["seq"], seq);
            let data = object["message"]["data"].as_str().expect("text");
            assert!(data.starts_with(&format!("{seq} ")), "{data}");
        }
        answers += 1;
    }
    assert!((7..=13).contains(&answers), "{answers}");
}

/// A client that never acknowledges is sent no more than `session.max_unacked` messages.
#[test]
fn unacknowledged_messages_are_limited() {
    let server = RunningServer::with(&["session.max_unacked=16", "session.poll_hold=1s"]);
    let (mut requests, hello) = open(&server, "news");
    for number in 1..=18 {
        server.admin.publish("news", number);
    }
    let first: Vec<Value> = (1..=16).map(|number| message(number, number, number)).collect();
    for _ in 0..2 {
        assert_eq!(requests.get(&command_query(&hello)).json(), json!(first));
    }
    assert_eq!(
        requests.get(&poll_query(&hello, 16)).json(),
        json!([message(17, 17, 17), message(18, 18, 18)])
    );
}

/// A client that reconnects after a restart gets a new session with the channels that it requests.
#[test]
fn an_unknown_resume_token_gets_a_new_session() {
    let server = RunningServer::with(&[]);
    let (requests, old) = open(&server, "news");
    drop((requests, server));
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let new = hello(&requests.get(&format!("{}&channels=news", poll_query(&old, 17))).json());
    assert!(!new.recovered);
    assert_ne!(new.session, old.session);
    let rejected = requests.post(&command_query(&old), r#"{"id":1,"ack":{"seq":0}}"#);
    assert_eq!((rejected.status, rejected.error_code().as_str()), (410, "gone"));
    assert_eq!(rejected.header("cache-control"), Some("no-store"));
    server.admin.publish("news", 1);
    assert_eq!(requests.get(&poll_query(&new, 0)).json(), json!([message(1, 1, 1)]));
}

#[test]
fn a_session_may_start_with_the_last_messages() {
    let server = RunningServer::with(&[]);
    (1..=3).for_each(|number| _ = server.admin.publish("news", number));
    let mut requests = PollClient::connect(server.public);
    let answer = requests.get("channels=news&last=2").json();
    let mut objects = answer.as_array().expect("an array").clone();
    let hello = Hello::parse(objects.remove(0));
    if objects.is_empty() {
        let next = requests.get(&poll_query(&hello, 0)).json();
        objects = next.as_array().expect("an array").clone();
    }
    assert_eq!(objects, [message(1, 2, 2), message(2, 3, 3)]);
    server.admin.publish("news", 4);
    let next = requests.get(&format!("{}&channels=news&last=2", poll_query(&hello, 2))).json();
    assert_eq!(next, json!([message(3, 4, 4)]), "the session is already subscribed");
}

/// A poll may name additional channels, to which it subscribes the session.
#[test]
fn a_poll_may_add_channels() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "chat");
    requests.send_get(&format!("{}&channels=news", poll_query(&hello, 0)));
    eventually("both channels have the subscriber", || {
        let answer = server.admin.get("/api/channels/news");
        (answer.status == 200 && answer.json()["subscribers"] == 1).then_some(())
    });
    server.admin.publish("news", 1);
    assert_eq!(requests.response().json(), json!([message(1, 1, 1)]));
    // A poll that names a channel to which the session is already subscribed is held.
    requests.send_get(&format!("{}&channels=news", poll_query(&hello, 1)));
    await_held(&server, &hello);
    let_pass(Duration::from_millis(200));
    await_held(&server, &hello);
}
