use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, JSON, connect, connect_now, events, post, publish, session, with_field,
};
use encke_tests::connection::{Dial, Transport};
use encke_tests::server::IN_MEMORY;
use encke_tests::tls::{VERSIONS, handshake_over};
use encke_tests::waiting::until;
use serde_json::{Value, json};
use socket2::SockRef;

use super::connect_reply;
use crate::poll::over_tls;

/// Waits until the kernel has the answer to the session's last connect, which delivered the message with this
/// seq.
#[track_caller]
fn await_answered(server: &RunningServer, client_id: &str, seq: u64) {
    until("the connect is answered", || {
        let held = server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#);
        held == 0.0 && server.admin.session(&session(client_id))["seq"] == seq
    });
}

fn gaps(answer: &[Value]) -> &Value {
    &connect_reply(answer)["ext"]["encke"]["gaps"]
}

/// How a client that has not read its answer ends its connection.
#[derive(Clone, Copy, Debug)]
enum ConnectionEnd {
    /// The client shuts down its side of the stream.
    Stream,
    /// The client resets the connection, as the kernel does for a killed process.
    Reset,
    /// The client stays silent until the server stops waiting.
    Silence,
    /// Like [`Self::Silence`], but in the middle of the next request.
    Half,
    /// Like [`Self::Reset`], but the client has already sent another request.
    Ahead,
}

impl ConnectionEnd {
    const ALL: [Self; 5] = [Self::Stream, Self::Reset, Self::Silence, Self::Half, Self::Ahead];
}

/// Opens a connection for polls over the stream that `over` creates from a socket.
fn polls<S: Transport>(server: &RunningServer, over: impl Fn(TcpStream) -> S) -> BayeuxPolling<S> {
    BayeuxPolling::over(over(Dial::default().connect(server.public)))
}

/// Asserts that an answer is reported as lost if the connection ends in any way before the client has
/// acknowledged the answer.
///
/// Skips cases in which a TLS client closes a connection that the server was to close after the answer: the
/// client's kernel resets it regardless of what the client has read.
fn assert_lost_answers_are_reported<S: Transport>(
    server: &RunningServer,
    is_tls: bool,
    over: impl Fn(TcpStream) -> S,
) {
    let before = server.open_descriptors();
    let await_closed = || until("no connection is open", || server.open_descriptors() == before);
    let id = polls(server, &over).open(&["/news"]);
    let mut number = 0;
    for headers in [JSON.to_owned(), format!("{JSON}Connection: close\r\n")] {
        for end in ConnectionEnd::ALL {
            let is_reset = matches!(end, ConnectionEnd::Reset | ConnectionEnd::Ahead);
            if is_tls && headers.len() > JSON.len() && is_reset {
                continue;
            }
            number += 1;
            await_closed();
            server.admin.publish("/news", "x".repeat(12_000));
            let socket = Dial::with_receive_buffer(2048).connect(server.public);
            let mut slow = over(socket.try_clone().expect("the socket can be cloned"));
            let next = match end {
                ConnectionEnd::Half => "POST".to_owned(),
                ConnectionEnd::Ahead => post("/bayeux", JSON, &publish(&id, "/other", number).to_string()),
                ConnectionEnd::Stream | ConnectionEnd::Reset | ConnectionEnd::Silence => String::new(),
            };
            let request = post("/bayeux", &headers, &connect_now(&id).to_string()) + &next;
            slow.write_all(request.as_bytes()).and_then(|()| slow.flush()).expect("the server reads");
            await_answered(server, &id, number);
            match end {
                ConnectionEnd::Stream => socket.shutdown(Shutdown::Write).expect("the socket is connected"),
                ConnectionEnd::Reset | ConnectionEnd::Ahead => {
                    let linger = Some(Duration::ZERO);
                    SockRef::from(&socket).set_linger(linger).expect("the socket accepts the option");
                    drop((slow, socket));
                }
                ConnectionEnd::Silence | ConnectionEnd::Half => {}
            }
            await_closed();
            let answer = polls(server, &over).request(&connect_now(&id));
            assert_eq!(events(&answer), [] as [i32; 0]);
            let gap = &gaps(&answer)[0];
            let range = json!([gap["from"], gap["to"]]);
            assert_eq!(range, json!([number, number]), "{end:?}, {headers:?}: {answer:?}");
        }
    }
    await_closed();
}

const SHORT_TIMEOUTS: [&str; 4] =
    [IN_MEMORY, "limits.handshake_timeout=3s", "limits.keep_alive_timeout=3s", "session.close_timeout=3s"];

#[test]
fn only_an_answer_that_was_lost_is_a_gap() {
    let server = RunningServer::with(&SHORT_TIMEOUTS);
    assert_lost_answers_are_reported(&server, false, |socket| socket);
    assert_read_answers_are_not_reported(&server, |socket| socket);
}

#[test]
fn only_an_answer_that_was_lost_over_tls_is_a_gap() {
    let (server, certificate) = over_tls(&SHORT_TIMEOUTS);
    let over =
        |socket| handshake_over(socket, &certificate, VERSIONS[1]).expect("the certificate is trusted");
    assert_lost_answers_are_reported(&server, true, over);
    assert_read_answers_are_not_reported(&server, over);
}

/// Asserts that no loss is reported for a client that has read the answer, however it ends the connection.
fn assert_read_answers_are_not_reported<S: Transport>(server: &RunningServer, over: impl Fn(TcpStream) -> S) {
    let before = server.open_descriptors();
    let id = polls(server, &over).open(&["/news"]);
    for number in 1..=10 {
        until("no connection is open", || server.open_descriptors() == before);
        server.admin.publish("/news", number);
        let mut polls = polls(server, &over);
        let close = if number % 2 == 0 { "Connection: close\r\n" } else { "" };
        polls.requests.send(post("/bayeux", &format!("{JSON}{close}"), &connect_now(&id).to_string()));
        let answer = polls.response();
        assert_eq!((events(&answer), gaps(&answer)), (vec![json!(number)], &Value::Null));
    }
}

/// Some proxies reset the connection after each answer, so that the server counts every answer as lost.
#[test]
fn a_gap_is_not_repeated_in_a_loop() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let before = server.open_descriptors();
    let await_closed = || until("no connection is open", || server.open_descriptors() == before);
    let id = polls(&server, |socket| socket).open(&["/news"]);
    let hold_ms = 1_500;
    let connect_and_reset = || {
        await_closed();
        let socket = Dial::default().connect(server.public);
        SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("the socket accepts the option");
        let mut polls = BayeuxPolling::over(socket);
        let request = with_field(connect(&id), "advice", json!({ "timeout": hold_ms }));
        let began = Instant::now();
        polls.requests.send(post("/bayeux", &format!("{JSON}Connection: close\r\n"), &request.to_string()));
        let answer = polls.response();
        let gap = &gaps(&answer)[0];
        (
            (events(&answer), json!([gap["from"], gap["to"]])),
            began.elapsed() >= Duration::from_millis(hold_ms),
        )
    };
    let (no_events, no_gap) = (vec![] as Vec<Value>, json!([null, null]));
    server.admin.publish("/news", "a");
    assert_eq!(connect_and_reset().0, (vec![json!("a")], no_gap));
    assert_eq!(connect_and_reset().0, (no_events.clone(), json!([1, 1])));
    assert_eq!(connect_and_reset(), ((no_events, json!([1, 1])), true), "the gap is repeated after the hold");
    server.admin.publish("/news", "b");
    assert_eq!(connect_and_reset().0, (vec![json!("b")], json!([1, 1])));
}
