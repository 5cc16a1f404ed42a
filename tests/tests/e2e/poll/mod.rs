// POST: commands alongside a poll, an event stream, or a WebSocket.
mod commands;
// Polls that end with an error, a goaway, or a disconnect.
mod close;
// How long polls are held, and which responses are repeated.
mod hold;
// HTTP on the connection: sequential, pipelined, partial and late requests, and unexpected bodies.
mod requests;
// Origins, of all requests that pages can send, and tokens.
mod access;

use encke_tests::waiting::until;
use encke_tests::{Certificate, Hello, Launch, PollClient, RunningServer};
use serde_json::{Value, json};

/// Header of a POST with a JSON body.
const JSON: &str = encke_tests::bayeux::JSON;

/// Opens a session that is subscribed to a channel. Returns its connection and its hello.
#[track_caller]
pub(crate) fn open(server: &RunningServer, channel: &str) -> (PollClient, Hello) {
    let mut requests = PollClient::connect(server.public);
    let hello = hello(&requests.get(&format!("channels={channel}")).json());
    (requests, hello)
}

/// Parses a response that consists of a hello.
#[track_caller]
pub(crate) fn hello(answer: &Value) -> Hello {
    assert_eq!(answer.as_array().map(Vec::len), Some(1), "{answer}");
    Hello::parse(answer[0].clone())
}

/// Returns the query of a session's next poll.
pub(crate) fn poll_query(hello: &Hello, seq: u64) -> String {
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

/// Starts a server with TLS. Returns its certificate, too.
#[track_caller]
pub(crate) fn over_tls(settings: &[&str]) -> (RunningServer, Certificate) {
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let certificate = Certificate::generate();
    let launch = Launch::with(settings).with_certificate(&certificate, directory.path());
    (launch.start(), certificate)
}
