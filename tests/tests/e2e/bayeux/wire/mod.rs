// The acknowledgement extension: messages that are sent again, and messages that are not.
mod acknowledging;
// Sessions without the extension: messages that may not have arrived.
mod at_most_once;
// callback-polling, which is off by default.
mod callback;
// Connects that are held, answered immediately, superseded, or ended.
mod connecting;
// The cookie by which a browser is known.
mod cookie;
// Handshakes: versions, connection types, and other messages in the request.
mod handshaking;
// Publishing, and what is refused.
mod publishing;
// Paths, bodies, content types and sizes.
mod requests;
// Subscriptions to one channel or to several.
mod subscribing;
// Tokens, which expire and are replaced.
mod tokens;
// WebSocket frames.
mod websocket;

use encke_tests::bayeux::session;
use encke_tests::{Logs, RunningServer};
use serde_json::{Value, json};

/// Returns the channels to which the session is subscribed, sorted.
#[track_caller]
fn subscribed_channels(server: &RunningServer, client_id: &str) -> Vec<String> {
    let session = server.admin.session(&session(client_id));
    let subscriptions = session["subscriptions"].as_array().expect("an array");
    let name = |each: &Value| each["channel"].as_str().expect("a subscription has a channel").to_owned();
    let mut names: Vec<_> = subscriptions.iter().map(name).collect();
    names.sort();
    names
}

/// Asserts that a reply is unsuccessful, with an error in the format of the specification.
#[track_caller]
fn assert_refused_with_any_code(reply: &Value) {
    let error = reply["error"].as_str().unwrap_or_default();
    let code = error.split(':').next().unwrap_or_default();
    assert!(code.len() == 3 && code.starts_with('4'), "{reply}");
    encke_tests::bayeux::assert_refused(reply, code);
}

/// Returns the last message of a response, which must be the reply to a connect.
#[track_caller]
fn connect_reply(answer: &[Value]) -> &Value {
    let last = answer.last().expect("there is a message");
    assert_eq!(last["channel"], "/meta/connect", "{answer:?}");
    last
}

/// Asserts that the secret of a client id is not in the log.
#[track_caller]
fn assert_not_logged(logs: &Logs, client_id: &str) {
    let (_, secret) = client_id.split_once('.').expect("a client id has a secret");
    assert!(!logs.text().contains(secret), "the secret is in a log");
}

/// Returns the timeouts in an advice.
fn timing(advice: &Value) -> Value {
    json!([advice["timeout"], advice["interval"], advice["maxInterval"]])
}
