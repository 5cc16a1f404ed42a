use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use encke_tests::bayeux::{JSON, BayeuxPolling, connect_now, events, post, publish, session};
use encke_tests::raw::Dial;
use encke_tests::server::IN_MEMORY;
use encke_tests::tls::{VERSIONS, handshake_over};
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Certificate, Launch, RunningServer};
use serde_json::{Value, json};
use socket2::SockRef;

use super::connect_reply;

/// Waits until the server has the answer of the session's last connect in its kernel, and that brought what has this seq.
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

/// How the connection ends of a client that has not taken its answer.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The client ends its stream.
    Stream,
    /// It resets the connection, as the kernel of one that is killed.
    Reset,
    /// It says nothing more, and the server waits no longer.
    Silence,
    /// The same, in the middle of its next request.
    Half,
    /// As [`Self::Reset`], behind another request that it had sent before.
    Ahead,
}

/// A connection for requests, over whatever `over` makes of a socket.
fn polls<S: Read + Write>(server: &RunningServer, over: impl Fn(TcpStream) -> S) -> BayeuxPolling<S> {
    let stream = Dial::default().connect(server.public);
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
    BayeuxPolling::over(over(stream))
}

/// A client that has not acknowledged the answer when the connection ends may not have it, however that is.
///
/// Where a client of TLS closes a connection that was to end after the answer, its kernel resets it whatever it has read.
fn assert_told<S: Read + Write>(server: &RunningServer, is_tls: bool, over: impl Fn(TcpStream) -> S) {
    let before = server.open_descriptors();
    let await_closed = || until("no connection is open", || server.open_descriptors() == before);
    let id = polls(server, &over).open(&["/news"]);
    let mut number = 0;
    for headers in [JSON.to_owned(), format!("{JSON}Connection: close\r\n")] {
        for end in [End::Stream, End::Reset, End::Silence, End::Half, End::Ahead] {
            if is_tls && headers.len() > JSON.len() && matches!(end, End::Reset | End::Ahead) {
                continue;
            }
            number += 1;
            await_closed();
            server.admin.publish("/news", "x".repeat(12_000));
            let socket = Dial { receive_buffer: Some(2048), ..Dial::default() }.connect(server.public);
            let mut slow = over(socket.try_clone().expect("there is a descriptor"));
            let next = match end {
                End::Half => "POST".to_owned(),
                End::Ahead => post("/bayeux", JSON, &publish(&id, "/other", number).to_string()),
                End::Stream | End::Reset | End::Silence => String::new(),
            };
            let request = post("/bayeux", &headers, &connect_now(&id).to_string()) + &next;
            slow.write_all(request.as_bytes()).and_then(|()| slow.flush()).expect("the server reads");
            await_answered(server, &id, number);
            match end {
                End::Stream => socket.shutdown(Shutdown::Write).expect("it is open"),
                End::Reset | End::Ahead => {
                    let linger = Some(Duration::ZERO);
                    SockRef::from(&socket).set_linger(linger).expect("a socket takes an option");
                    drop((slow, socket));
                }
                End::Silence | End::Half => {}
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

const SHORT: [&str; 3] = [IN_MEMORY, "limits.handshake_timeout=1s", "session.close_timeout=1s"];

#[test]
fn only_an_answer_that_has_not_arrived_before_the_end_is_a_gap() {
    let server = RunningServer::with(&SHORT);
    assert_told(&server, false, |socket| socket);
    assert_none_told(&server, |socket| socket);
}

#[test]
fn only_an_answer_over_tls_that_has_not_arrived_before_the_end_is_a_gap() {
    let directory = tempfile::tempdir().expect("there is room for files");
    let certificate = Certificate::generate();
    let (chain, key) = certificate.write(directory.path());
    let tls = [format!("tls.certificate={}", chain.display()), format!("tls.key={}", key.display())];
    let server = tls.iter().fold(Launch::with(&SHORT), |launch, setting| launch.set(setting)).start();
    let over = |socket| handshake_over(socket, &certificate, VERSIONS[1]).expect("it is trusted");
    assert_told(&server, true, over);
    assert_none_told(&server, over);
}

/// One that has taken it ends the connection as it likes.
fn assert_none_told<S: Read + Write>(server: &RunningServer, over: impl Fn(TcpStream) -> S) {
    let before = server.open_descriptors();
    let id = polls(server, &over).open(&["/news"]);
    for number in 1..=20 {
        until("no connection is open", || server.open_descriptors() == before);
        server.admin.publish("/news", number);
        let mut polls = polls(server, &over);
        let close = if number % 2 == 0 { "Connection: close\r\n" } else { "" };
        polls.requests.send(&post("/bayeux", &format!("{JSON}{close}"), &connect_now(&id).to_string()));
        let answer = polls.response();
        assert_eq!((events(&answer), gaps(&answer)), (vec![json!(number)], &Value::Null));
    }
}
