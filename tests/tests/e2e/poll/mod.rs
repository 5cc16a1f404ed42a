// POST: commands alongside a poll, an event stream, or a WebSocket.
mod commands;
// Polls that end with an error, a goaway, or a disconnect.
mod close;
// How long polls are held, and which responses are repeated.
mod hold;
// The time between polls.
mod pauses;
// HTTP on the connection: sequential, pipelined and partial requests, and unexpected bodies.
mod requests;
// Origins and tokens.
mod access;

use encke_tests::waiting::until;
use encke_tests::{Hello, PollClient, RunningServer};
use serde_json::{Value, json};

/// Opens a session that is subscribed to a channel. Returns its connection and its hello.
#[track_caller]
fn open(server: &RunningServer, channel: &str) -> (PollClient, Hello) {
    let mut requests = PollClient::connect(server.public);
    let hello = hello(&requests.get(&format!("channels={channel}")).json());
    (requests, hello)
}

/// Parses a response that consists of a hello.
#[track_caller]
fn hello(answer: &Value) -> Hello {
    assert_eq!(answer.as_array().map(Vec::len), Some(1), "{answer}");
    Hello::parse(answer[0].clone())
}

/// Returns the query of a session's next poll.
fn poll_query(hello: &Hello, seq: u64) -> String {
    format!("resume={}&seq={seq}", hello.resume)
}

/// Returns the query for a session's commands.
fn command_query(hello: &Hello) -> String {
    format!("resume={}", hello.resume)
}

fn message(seq: u64, offset: u64, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({"message": {"seq": seq, "channel": "news", "offset": offset, "data": data}})
}

/// Waits until a poll of the session is held.
#[track_caller]
fn await_held(server: &RunningServer, hello: &Hello) {
    until(format!("a poll of {} is held", hello.session), || {
        let session = server.admin.session(&hello.session);
        let deadlines = session["deadlines"].as_array().expect("an array");
        deadlines.iter().any(|armed| armed["deadline"] == "poll_hold")
    });
}

/// Waits until `count` polls are open, whether they are held or have not been read yet.
#[track_caller]
fn await_polls(server: &RunningServer, count: u32) {
    until(format!("{count} polls are open"), || {
        let polls = server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="json"}"#);
        polls == f64::from(count)
    });
}

/// Returns the reason of the `goaway`, which is the last object.
#[track_caller]
fn goaway(answer: &Value) -> &str {
    let last = answer.as_array().and_then(|objects| objects.last()).expect("there is an object");
    last["goaway"]["reason"].as_str().unwrap_or_else(|| panic!("no goaway: {answer}"))
}
