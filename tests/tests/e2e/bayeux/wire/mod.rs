// The extension: what comes again, and what does not.
mod acknowledging;
// Without the extension: what may not have arrived.
mod at_most_once;
// callback-polling, which is off.
mod callback;
// Held or answered at once, superseded, ended.
mod connecting;
// Several sessions of one browser.
mod cookie;
// Versions, connection types, what shares the request.
mod handshaking;
// Publishing, and where one may not.
mod publishing;
// Paths, bodies, their types and sizes.
mod requests;
// Other origins, and tokens.
mod strangers;
// Following, all or nothing.
mod subscribing;
// Frames.
mod websocket;

use encke_tests::bayeux::session;
use encke_tests::waiting::until;
use encke_tests::{Logs, RunningServer};
use serde_json::{Value, json};

/// Waits until a connect of the session is held.
#[track_caller]
fn await_held(server: &RunningServer, client_id: &str) {
    until(format!("a connect of {} is held", session(client_id)), || {
        let session = server.admin.session(&session(client_id));
        let deadlines = session["deadlines"].as_array().expect("an array");
        deadlines.iter().any(|armed| armed["deadline"] == "poll_hold")
    });
}

/// What the session follows, in no order.
#[track_caller]
fn followed(server: &RunningServer, client_id: &str) -> Vec<String> {
    let session = server.admin.session(&session(client_id));
    let subscriptions = session["subscriptions"].as_array().expect("an array");
    let name = |each: &Value| each["channel"].as_str().expect("it has a name").to_owned();
    let mut names: Vec<_> = subscriptions.iter().map(name).collect();
    names.sort();
    names
}

/// Asserts that a reply is unsuccessful, by an error of the specification's shape.
#[track_caller]
fn assert_refused_somehow(reply: &Value) {
    let error = reply["error"].as_str().unwrap_or_default();
    let code = error.split(':').next().unwrap_or_default();
    assert!(code.len() == 3 && code.starts_with('4'), "{reply}");
    encke_tests::bayeux::assert_refused(reply, code);
}

/// The last message of an answer, which replies to a connect.
#[track_caller]
fn connect_reply(answer: &[Value]) -> &Value {
    let last = answer.last().expect("there is a message");
    assert_eq!(last["channel"], "/meta/connect", "{answer:?}");
    last
}

/// The secret of a client id is in no log.
#[track_caller]
fn assert_not_told(logs: &Logs, client_id: &str) {
    let (_, secret) = client_id.split_once('.').expect("a client id has a secret");
    assert!(!logs.text().contains(secret), "the secret is in a log");
}

/// What the client is told of the server's timeouts.
fn timing(advice: &Value) -> Value {
    json!([advice["timeout"], advice["interval"], advice["maxInterval"]])
}
