use encke_tests::waiting::until;
use encke_tests::{Hello, PollClient, RunningServer};
use serde_json::json;

use super::{await_polls, command_query, hello, message, open, poll_query};

#[test]
fn a_session_is_greeted_at_once_and_later_polls_are_held() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let answer = requests.get("channels=news,chat");
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let hello = hello(&answer.json());
    assert!(!hello.recovered);
    assert_eq!(hello.object["hello"]["seq"], 0);
    let session = server.admin.session(&hello.session);
    assert_eq!((&session["transport"], &session["dialect"]), (&json!("poll"), &json!("json")));
    assert_eq!(session["phase"], "attached", "also between polls");
    requests.send_get(&poll_query(&hello, 0));
    server.await_held(&hello.session);
    server.admin.publish("news", 7);
    assert_eq!(requests.response().json(), json!([message(1, 1, 7)]));
    server.admin.publish("chat", 8);
    server.admin.publish("news", 9);
    let next = requests.get(&poll_query(&hello, 1)).json();
    assert_eq!((&next[0]["message"]["channel"], &next[1]), (&json!("chat"), &message(3, 2, 9)));
    await_polls(&server, 0);
}

/// The `seq` of the next poll is an acknowledgement. Each time a response is lost, it is repeated.
#[test]
fn a_lost_response_is_repeated() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    server.admin.publish_each("news", 1..=3);
    let all = json!([message(1, 1, 1), message(2, 2, 2), message(3, 3, 3)]);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), all);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), all);
    // Poll on another connection without stating what has been received.
    let mut other = PollClient::connect(server.public);
    assert_eq!(other.get(&command_query(&hello)).json(), all);
    assert_eq!(other.get(&poll_query(&hello, 2)).json(), json!([message(3, 3, 3)]));
    server.admin.publish("news", 4);
    assert_eq!(other.get(&poll_query(&hello, 3)).json(), json!([message(4, 4, 4)]));
    server.await_lifecycle(&hello.session, "opened connect");
}

#[test]
fn a_second_poll_supersedes_the_first() {
    let server = RunningServer::with(&[]);
    let (mut first, hello) = open(&server, "news");
    first.send_get(&poll_query(&hello, 0));
    server.await_held(&hello.session);
    let mut second = PollClient::connect(server.public);
    second.send_get(&poll_query(&hello, 0));
    let superseded = first.response();
    assert_eq!((superseded.status, superseded.header("retry-after")), (409, Some("1")), "{superseded:?}");
    assert_eq!(superseded.error_code(), "superseded");
    server.await_held(&hello.session);
    server.admin.publish("news", 1);
    assert_eq!(second.response().json(), json!([message(1, 1, 1)]));
    // The first poll's connection stays usable.
    server.admin.publish("news", 2);
    assert_eq!(first.get(&poll_query(&hello, 1)).json(), json!([message(2, 2, 2)]));
    server.await_lifecycle(&hello.session, "opened connect");
}

#[test]
fn a_websocket_takes_the_session_over() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    server.await_held(&hello.session);
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
    server.await_lifecycle(&hello.session, "opened connect, resumed take_over, resumed take_over");
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

/// The client of an unknown session, as after a restart, gets a new session with the channels that it
/// requests.
#[test]
fn a_session_may_start_with_the_last_messages() {
    let server = RunningServer::with(&[]);
    server.admin.publish_each("news", 1..=3);
    let mut requests = PollClient::connect(server.public);
    let answer = requests.get("resume=s_unknown.x&seq=17&channels=news&last=2").json();
    let mut objects = answer.as_array().expect("an array").clone();
    let hello = Hello::parse(objects.remove(0));
    assert!(!hello.recovered);
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
    until("the channel has the subscriber", || {
        let answer = server.admin.get("/api/channels/news");
        answer.status == 200 && answer.json()["subscribers"] == 1
    });
    server.admin.publish("news", 1);
    assert_eq!(requests.response().json(), json!([message(1, 1, 1)]));
    // A poll that names a channel to which the session is already subscribed is held.
    requests.send_get(&format!("{}&channels=news", poll_query(&hello, 1)));
    server.await_held(&hello.session);
}
