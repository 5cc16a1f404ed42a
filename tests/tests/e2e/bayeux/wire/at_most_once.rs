use std::net::{Shutdown, TcpStream};

use encke_tests::bayeux::{Polls, connect_now, events, session};
use encke_tests::raw::Dial;
use encke_tests::waiting::until;
use encke_tests::{Requests, RunningServer};
use serde_json::{Value, json};

use super::connect_reply;

/// Waits until the server has the answer of the session's last connect in its kernel, and that brought what has this seq.
#[track_caller]
fn await_answered(server: &RunningServer, client_id: &str, seq: u64) {
    until("the connect is answered", || {
        let held = server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#);
        held == 0.0 && server.admin.session(&session(client_id))["seq"] == seq
    });
}

/// Does something after which the server has one connection less.
#[track_caller]
fn await_closed(server: &RunningServer, before: usize, end: impl FnOnce()) {
    end();
    until("the server has closed the connection", || server.descriptors() == before);
}

fn gaps(answer: &[Value]) -> &Value {
    &connect_reply(answer)["ext"]["encke"]["gaps"]
}

/// A client that ends its stream before its machine has acknowledged the answer may not have it.
#[test]
fn an_answer_that_has_not_arrived_before_the_end_is_a_gap() {
    let server = RunningServer::with(&[]);
    let mut polls = Polls::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=3 {
        let before = server.descriptors();
        let dial = Dial { receive_buffer: Some(2048), ..Dial::default() };
        let mut slow = Polls { requests: Requests::over(dial.connect(server.public)) };
        server.admin.publish("/news", "x".repeat(12_000));
        slow.send(&connect_now(&id));
        await_answered(&server, &id, number);
        let stream: &TcpStream = slow.requests.stream();
        await_closed(&server, before, || stream.shutdown(Shutdown::Write).expect("it is open"));
        let answer = polls.ask(&connect_now(&id));
        assert_eq!(events(&answer), [] as [i32; 0]);
        let offset = json!([number, number]);
        let gap = &gaps(&answer)[0];
        assert_eq!(json!([gap["from"], gap["to"]]), offset, "{answer:?}");
    }
}

/// One that has it ends its stream as it likes.
#[test]
fn an_answer_that_has_arrived_is_none() {
    let server = RunningServer::with(&[]);
    let before = server.descriptors();
    let mut polls = Polls::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=20 {
        server.admin.publish("/news", number);
        let answer = polls.ask(&connect_now(&id));
        assert_eq!((events(&answer), gaps(&answer)), (vec![json!(number)], &Value::Null));
        await_closed(&server, before, || drop(polls));
        polls = Polls::connect(server.public);
    }
}
