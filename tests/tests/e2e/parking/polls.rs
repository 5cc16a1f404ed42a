use std::time::{Duration, Instant};

use encke_tests::bayeux::{BayeuxPolling, connect, events};
use encke_tests::crowd;
use encke_tests::poll::get;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT};
use encke_tests::{EventStream, PollClient};
use serde_json::{Value, json};

use super::*;
use crate::restart::RestartableServer;

/// Opens a session that is subscribed to `news`. Returns its connection and its hello.
#[track_caller]
fn open(server: &RunningServer) -> (PollClient, Hello) {
    let mut requests = PollClient::connect(server.public);
    let hello = Hello::parse(requests.get("channels=news").json()[0].clone());
    (requests, hello)
}

/// Returns the query of a session's next poll.
fn poll_query(hello: &Hello, seq: u64) -> String {
    format!("resume={}&seq={seq}", hello.resume)
}

/// Returns the offsets of the messages in a response.
fn offsets(answer: &Value) -> Vec<u64> {
    let objects = answer.as_array().unwrap_or_else(|| panic!("{answer}"));
    objects.iter().map(|object| seq_and_offset(object).1).collect()
}

#[track_caller]
fn goaway(answer: &Value) -> &str {
    let last = answer.as_array().and_then(|objects| objects.last()).expect("there is an object");
    last["goaway"]["reason"].as_str().unwrap_or_else(|| panic!("no goaway: {answer}"))
}

#[test]
fn successive_polls_are_parked_and_answered() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut requests, hello) = open(&server);
    for seq in 0..5 {
        requests.send_get(&poll_query(&hello, seq));
        await_parked(&server, 1);
        let metrics = server.admin.metrics();
        assert_eq!(metrics.value("encke_connections_parked{transport=\"poll\"}"), 1.0);
        assert_eq!(metrics.value("encke_connections{transport=\"poll\",dialect=\"json\"}"), 1.0);
        assert_eq!(server.admin.session(&hello.session)["transport"], "poll");
        server.admin.publish("news", seq);
        assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        assert_eq!(unparked(&server), (seq + 1) as f64);
    }
    // Send commands on another connection, and after the poll on the same connection.
    requests.send_get(&poll_query(&hello, 5));
    await_parked(&server, 1);
    let mut separate = PollClient::connect(server.public);
    let reply =
        separate.post(&format!("resume={}", hello.resume), r#"[{"publish":{"channel":"news","data":9}}]"#);
    assert_eq!(reply.status, 200);
    assert_eq!(offsets(&requests.response().json()), [6]);
    assert_eq!(requests.post(&format!("resume={}", hello.resume), r#"[{"close":{}}]"#).status, 200);
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "client")]);
    await_parked(&server, 0);
    server.assert_healthy();
}

/// Parking costs more than it saves if the response follows soon. The connection remembers from poll to poll
/// whether that was the case.
#[test]
fn frequently_answered_polls_are_not_parked() {
    let server = RunningServer::with(&["parking.after=500ms", "session.poll_hold=900ms"]);
    let (mut requests, hello) = open(&server);
    for _ in 0..4 {
        assert_eq!(requests.get(&poll_query(&hello, 0)).json(), json!([]));
        assert_eq!((parked(&server), unparked(&server)), (0.0, 1.0));
    }
}

#[test]
fn a_parked_poll_is_held_for_poll_hold() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "session.poll_hold=1s"]);
    let (mut requests, hello) = open(&server);
    for _ in 0..2 {
        let from = Instant::now();
        requests.send_get(&poll_query(&hello, 0));
        await_parked(&server, 1);
        assert_eq!(requests.response().json(), json!([]));
        let after = from.elapsed();
        assert!(
            after >= Duration::from_secs(1) && after <= Duration::from_secs(1) + MAX_LATENESS,
            "{after:?}"
        );
        await_parked(&server, 0);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn another_connection_supersedes_a_parked_poll() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut first, hello) = open(&server);
    first.send_get(&poll_query(&hello, 0));
    await_parked(&server, 1);
    let mut second = PollClient::connect(server.public);
    second.send_get(&poll_query(&hello, 0));
    assert_eq!(first.response().status, 409);
    await_parked(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(offsets(&second.response().json()), [1]);
    // The first poll's connection stays usable.
    first.send_get(&poll_query(&hello, 1));
    await_parked(&server, 1);
    // An event stream replaces the parked poll as well.
    let mut events = EventStream::reconnect(server.public, "", &format!("{}:1", hello.resume));
    assert!(events.hello().recovered);
    assert_eq!(goaway(&first.response().json()), "replaced");
    await_parked(&server, 1);
    assert_eq!(server.admin.metrics().value("encke_connections_parked{transport=\"sse\"}"), 1.0);
}

#[test]
fn close_reasons_are_sent_to_parked_polls() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut requests, hello) = open(&server);
    requests.send_get(&poll_query(&hello, 0));
    await_parked(&server, 1);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "disconnected");
    requests.send_get(&poll_query(&hello, 0));
    await_parked(&server, 1);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "kicked");
    await_parked(&server, 0);
    // The connection stays usable for another session.
    let again = Hello::parse(requests.get("channels=news").json()[0].clone());
    requests.send_get(&poll_query(&again, 0));
    await_parked(&server, 1);
}

/// Input that belongs to the next request keeps the connection active and is not lost.
#[test]
fn the_next_request_may_arrive_before_the_response() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut requests, hello) = open(&server);
    for seq in [0, 2] {
        requests.send_get(&poll_query(&hello, seq));
        await_parked(&server, 1);
        let next = get(&poll_query(&hello, seq + 1));
        let (some, others) = next.split_at(if seq == 0 { next.len() } else { 10 });
        requests.send(some);
        await_parked(&server, 0);
        server.admin.publish("news", seq);
        assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        requests.send(others);
        await_parked(&server, 1);
        server.admin.publish("news", seq + 1);
        assert_eq!(offsets(&requests.response().json()), [seq + 2]);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_disconnect_while_parked_is_detected() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "session.poll_gap=300ms"]);
    let (mut requests, hello) = open(&server);
    let before = server.open_descriptors();
    requests.send_get(&poll_query(&hello, 0));
    await_parked(&server, 1);
    drop(requests);
    server.await_phase(&hello.session, "suspended");
    await_parked(&server, 0);
    until("the socket is closed", || server.open_descriptors() < before);
    let open = || server.admin.metrics().value("encke_connections{transport=\"poll\",dialect=\"json\"}");
    until("the connection is not counted any more", || open() == 0.0);
    server.admin.publish("news", 1);
    let mut again = PollClient::connect(server.public);
    assert_eq!(offsets(&again.get(&poll_query(&hello, 0)).json()), [1]);
    let life = [("opened", "connect"), ("suspended", "poll_gap"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &life);
}

/// A parked poll keeps its connection slot and frees it when the client disconnects.
#[test]
fn parked_polls_count_as_connections() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.max_connections=2", "session.poll_gap=300ms"]);
    let (mut first, hello) = open(&server);
    let (mut second, other) = open(&server);
    for (requests, hello) in [(&mut first, &hello), (&mut second, &other)] {
        requests.send_get(&poll_query(hello, 0));
    }
    await_parked(&server, 2);
    let refused = PollClient::connect(server.public).get("channels=news").json();
    assert_eq!(goaway(&refused), "overloaded");
    drop(first);
    server.await_phase(&hello.session, "suspended");
    let (_third, _) = open(&server);
    server.admin.publish("news", 1);
    assert_eq!(offsets(&second.response().json()), [1]);
}

/// The response is longer than the kernel accepts at once.
#[test]
fn long_responses_are_complete() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.send_buffer=4KiB"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut requests = PollClient::over(dial.connect(server.public));
    let hello = Hello::parse(requests.get("channels=news").json()[0].clone());
    let data = "x".repeat(60_000);
    for seq in 0..3 {
        requests.send_get(&poll_query(&hello, seq));
        await_parked(&server, 1);
        server.admin.publish("news", data.as_str());
        await_parked(&server, 0);
        let answer = requests.response().json();
        assert_eq!(offsets(&answer), [seq + 1]);
        assert_eq!(answer[0]["message"]["data"], data);
    }
}

#[test]
fn thousands_of_parked_polls_are_answered() {
    const CLIENTS: usize = 2_000;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&["parking.after=50ms", "session.poll_gap=2s"]);
    let mut crowd: Vec<_> = (0..CLIENTS).map(|_| open(&server)).collect();
    for seq in 0..3 {
        for (requests, hello) in &mut crowd {
            requests.send_get(&poll_query(hello, seq));
        }
        await_parked(&server, CLIENTS);
        server.admin.publish("news", seq);
        for (requests, _) in &mut crowd {
            assert_eq!(offsets(&requests.response().json()), [seq + 1]);
        }
    }
    assert_eq!(unparked(&server), 3.0 * CLIENTS as f64);
    for (requests, hello) in &mut crowd {
        requests.send_get(&poll_query(hello, 3));
    }
    await_parked(&server, CLIENTS);
    drop(crowd);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_parked(&server, 0);
}

#[test]
fn a_drain_answers_parked_polls() {
    let mut server = RunningServer::with(&[PARK_AT_ONCE, "shutdown.drain=15s"]);
    let mut crowd: Vec<_> = (0..50).map(|_| open(&server)).collect();
    for (requests, hello) in &mut crowd {
        requests.send_get(&poll_query(hello, 0));
    }
    await_parked(&server, 50);
    let from = Instant::now();
    server.terminate();
    for (requests, _) in &mut crowd {
        assert_eq!(goaway(&requests.response().json()), "draining");
        requests.await_end();
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "the drain took too long after all clients had left");
}

#[test]
fn parked_polls_continue_after_a_restart() {
    let mut restarts = RestartableServer::with(&[PARK_AT_ONCE]);
    let (mut requests, hello) = open(&restarts.server);
    requests.send_get(&poll_query(&hello, 0));
    await_parked(&restarts.server, 1);
    restarts.restart();
    assert_eq!(goaway(&requests.response().json()), "moved");
    restarts.server.admin.publish("news", 1);
    let mut again = PollClient::connect(restarts.server.public);
    assert_eq!(offsets(&again.get(&poll_query(&hello, 0)).json()), [1]);
}

#[test]
fn a_bayeux_connect_is_parked() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=4 {
        polls.send(&connect(&id));
        await_parked(&server, 1);
        assert_eq!(
            server.admin.metrics().value("encke_connections{transport=\"poll\",dialect=\"bayeux\"}"),
            1.0
        );
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(events(&answer), [number], "{answer:?}");
    }
    assert_eq!(unparked(&server), 4.0);
    // A browser may drop a connection and open another one.
    polls.send(&connect(&id));
    await_parked(&server, 1);
    let mut other = BayeuxPolling::connect(server.public);
    other.send(&connect(&id));
    drop(polls);
    await_parked(&server, 1);
    server.admin.publish("/news", 5);
    assert_eq!(events(&other.response()), [5]);
}
