use std::time::{Duration, Instant};

use encke_tests::bayeux::{BayeuxPolling, connect, events};
use encke_tests::crowd;
use encke_tests::poll::get;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT};
use encke_tests::{EventStream, PollClient};
use serde_json::{Value, json};

use super::*;
use crate::restart::Restarts;

/// A session that follows `news`, and the connection on which it was opened.
#[track_caller]
fn open(server: &RunningServer) -> (PollClient, Hello) {
    let mut requests = PollClient::connect(server.public);
    let hello = Hello::parse(requests.get("channels=news").json()[0].clone());
    (requests, hello)
}

/// The query of a session's next poll.
fn after(hello: &Hello, seq: u64) -> String {
    format!("resume={}&seq={seq}", hello.resume)
}

/// The messages of an answer, each its offset.
fn offsets(answer: &Value) -> Vec<u64> {
    let objects = answer.as_array().unwrap_or_else(|| panic!("{answer}"));
    objects.iter().map(|object| seq_and_offset(object).1).collect()
}

#[track_caller]
fn goaway(answer: &Value) -> &str {
    let last = answer.as_array().and_then(|objects| objects.last()).expect("there is an object");
    last["goaway"]["reason"].as_str().unwrap_or_else(|| panic!("no farewell: {answer}"))
}

#[test]
fn one_poll_after_the_other_rests_and_is_answered() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut requests, hello) = open(&server);
    for seq in 0..5 {
        requests.send_get(&after(&hello, seq));
        await_rest(&server, 1);
        let metrics = server.admin.metrics();
        assert_eq!(metrics.value("encke_connections_parked{transport=\"poll\"}"), 1.0);
        assert_eq!(metrics.value("encke_connections{transport=\"poll\",dialect=\"json\"}"), 1.0);
        assert_eq!(server.admin.session(&hello.session)["transport"], "poll");
        server.admin.publish("news", seq);
        assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        assert_eq!(woken(&server), (seq + 1) as f64);
    }
    // Beside it, and after it.
    requests.send_get(&after(&hello, 5));
    await_rest(&server, 1);
    let mut beside = PollClient::connect(server.public);
    let reply =
        beside.post(&format!("resume={}", hello.resume), r#"[{"publish":{"channel":"news","data":9}}]"#);
    assert_eq!(reply.status, 200);
    assert_eq!(offsets(&requests.response().json()), [6]);
    assert_eq!(requests.post(&format!("resume={}", hello.resume), r#"[{"close":{}}]"#).status, 200);
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "client")]);
    await_rest(&server, 0);
    server.assert_healthy();
}

/// To rest costs more than it brings when the answer comes soon: that is known from one poll of the connection to the next.
#[test]
fn a_client_that_is_answered_again_and_again_keeps_its_task() {
    let server = RunningServer::with(&["parking.after=500ms", "session.poll_hold=900ms"]);
    let (mut requests, hello) = open(&server);
    for _ in 0..4 {
        assert_eq!(requests.get(&after(&hello, 0)).json(), json!([]));
        assert_eq!((at_rest(&server), woken(&server)), (0.0, 1.0));
    }
}

#[test]
fn a_poll_is_held_for_as_long_as_any() {
    let server = RunningServer::with(&[AT_ONCE, "session.poll_hold=1s"]);
    let (mut requests, hello) = open(&server);
    for _ in 0..2 {
        let from = Instant::now();
        requests.send_get(&after(&hello, 0));
        await_rest(&server, 1);
        assert_eq!(requests.response().json(), json!([]));
        let after = from.elapsed();
        assert!(after >= Duration::from_secs(1) && after <= Duration::from_secs(1) + MAX_LATENESS, "{after:?}");
        await_rest(&server, 0);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn another_poll_of_the_session_answers_it() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut first, hello) = open(&server);
    first.send_get(&after(&hello, 0));
    await_rest(&server, 1);
    let mut second = PollClient::connect(server.public);
    second.send_get(&after(&hello, 0));
    assert_eq!(first.response().status, 409);
    await_rest(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(offsets(&second.response().json()), [1]);
    // Its connection is as good as any.
    first.send_get(&after(&hello, 1));
    await_rest(&server, 1);
    // So does a connection of another kind.
    let mut events = EventStream::reconnect(server.public, "", &format!("{}:1", hello.resume));
    assert!(events.hello().recovered);
    assert_eq!(goaway(&first.response().json()), "replaced");
    await_rest(&server, 1);
    assert_eq!(server.admin.metrics().value("encke_connections_parked{transport=\"sse\"}"), 1.0);
}

#[test]
fn each_end_is_the_answer() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut requests, hello) = open(&server);
    requests.send_get(&after(&hello, 0));
    await_rest(&server, 1);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "disconnected");
    requests.send_get(&after(&hello, 0));
    await_rest(&server, 1);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "kicked");
    await_rest(&server, 0);
    // The connection may be another session's.
    let again = Hello::parse(requests.get("channels=news").json()[0].clone());
    requests.send_get(&after(&again, 0));
    await_rest(&server, 1);
}

/// What has come of the next request keeps the connection awake, and is not lost.
#[test]
fn the_next_request_may_come_before_the_answer() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut requests, hello) = open(&server);
    for seq in [0, 2] {
        requests.send_get(&after(&hello, seq));
        await_rest(&server, 1);
        let next = get(&after(&hello, seq + 1));
        let (some, others) = next.split_at(if seq == 0 { next.len() } else { 10 });
        requests.send(some);
        await_rest(&server, 0);
        server.admin.publish("news", seq);
        assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        requests.send(others);
        await_rest(&server, 1);
        server.admin.publish("news", seq + 1);
        assert_eq!(offsets(&requests.response().json()), [seq + 2]);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn who_leaves_is_noticed_and_may_come_back() {
    let server = RunningServer::with(&[AT_ONCE, "session.poll_gap=300ms"]);
    let (mut requests, hello) = open(&server);
    let before = server.open_descriptors();
    requests.send_get(&after(&hello, 0));
    await_rest(&server, 1);
    drop(requests);
    server.await_phase(&hello.session, "suspended");
    await_rest(&server, 0);
    until("its socket is closed", || server.open_descriptors() < before);
    let open = || server.admin.metrics().value("encke_connections{transport=\"poll\",dialect=\"json\"}");
    until("its connection is counted no more", || open() == 0.0);
    server.admin.publish("news", 1);
    let mut again = PollClient::connect(server.public);
    assert_eq!(offsets(&again.get(&after(&hello, 0)).json()), [1]);
    let life = [("opened", "connect"), ("suspended", "poll_gap"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &life);
}

/// It keeps its place among the connections that there may be, and gives it back.
#[test]
fn it_counts_at_rest() {
    let server = RunningServer::with(&[AT_ONCE, "limits.max_connections=2", "session.poll_gap=300ms"]);
    let (mut first, hello) = open(&server);
    let (mut second, other) = open(&server);
    for (requests, hello) in [(&mut first, &hello), (&mut second, &other)] {
        requests.send_get(&after(hello, 0));
    }
    await_rest(&server, 2);
    let refused = PollClient::connect(server.public).get("channels=news").json();
    assert_eq!(goaway(&refused), "overloaded");
    drop(first);
    server.await_phase(&hello.session, "suspended");
    let (_third, _) = open(&server);
    server.admin.publish("news", 1);
    assert_eq!(offsets(&second.response().json()), [1]);
}

/// Longer than what the kernel takes at once.
#[test]
fn a_long_answer_is_whole() {
    let server = RunningServer::with(&[AT_ONCE, "limits.send_buffer=4KiB"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut requests = PollClient::over(dial.connect(server.public));
    let hello = Hello::parse(requests.get("channels=news").json()[0].clone());
    let data = "x".repeat(60_000);
    for seq in 0..3 {
        requests.send_get(&after(&hello, seq));
        await_rest(&server, 1);
        server.admin.publish("news", data.as_str());
        await_rest(&server, 0);
        let answer = requests.response().json();
        assert_eq!(offsets(&answer), [seq + 1]);
        assert_eq!(answer[0]["message"]["data"], data);
    }
}

#[test]
fn thousands_at_rest_are_answered_and_ask_again() {
    const CLIENTS: usize = 2_000;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&["parking.after=50ms", "session.poll_gap=2s"]);
    let mut crowd: Vec<_> = (0..CLIENTS).map(|_| open(&server)).collect();
    for seq in 0..3 {
        for (requests, hello) in &mut crowd {
            requests.send_get(&after(hello, seq));
        }
        await_rest(&server, CLIENTS);
        server.admin.publish("news", seq);
        for (requests, _) in &mut crowd {
            assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        }
    }
    assert_eq!(woken(&server), 3.0 * CLIENTS as f64);
    for (requests, hello) in &mut crowd {
        requests.send_get(&after(hello, 3));
    }
    await_rest(&server, CLIENTS);
    drop(crowd);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_rest(&server, 0);
}

#[test]
fn a_drain_answers_those_at_rest() {
    let mut server = RunningServer::with(&[AT_ONCE, "shutdown.drain=15s"]);
    let mut crowd: Vec<_> = (0..50).map(|_| open(&server)).collect();
    for (requests, hello) in &mut crowd {
        requests.send_get(&after(hello, 0));
    }
    await_rest(&server, 50);
    let from = Instant::now();
    server.terminate();
    for (requests, _) in &mut crowd {
        assert_eq!(goaway(&requests.response().json()), "draining");
        requests.await_end();
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "everyone had left, and it waited on");
}

#[test]
fn polls_at_rest_go_on_in_the_next_process() {
    let mut restarts = Restarts::with(&[AT_ONCE]);
    let (mut requests, hello) = open(&restarts.server);
    requests.send_get(&after(&hello, 0));
    await_rest(&restarts.server, 1);
    restarts.restart();
    assert_eq!(goaway(&requests.response().json()), "moved");
    restarts.server.admin.publish("news", 1);
    let mut again = PollClient::connect(restarts.server.public);
    assert_eq!(offsets(&again.get(&after(&hello, 0)).json()), [1]);
}

#[test]
fn a_connect_of_bayeux_rests() {
    let server = RunningServer::with(&[AT_ONCE]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=4 {
        polls.send(&connect(&id));
        await_rest(&server, 1);
        assert_eq!(
            server.admin.metrics().value("encke_connections{transport=\"poll\",dialect=\"bayeux\"}"),
            1.0
        );
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(events(&answer), [number], "{answer:?}");
    }
    assert_eq!(woken(&server), 4.0);
    // A browser that cuts a connection and asks on another.
    polls.send(&connect(&id));
    await_rest(&server, 1);
    let mut other = BayeuxPolling::connect(server.public);
    other.send(&connect(&id));
    drop(polls);
    await_rest(&server, 1);
    server.admin.publish("/news", 5);
    assert_eq!(events(&other.response()), [5]);
}
