//! The backend is asked before something is done, and called by clients.

// Calls, and what may go wrong with any question.
mod call;
// Who comes?
mod connect;
// May a client follow, and publish?
mod permission;

use encke_tests::{Backend, Client, Launch, RunningServer, tokens};
use serde_json::{Value, json};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A server that asks `backend` these things.
fn asking(backend: &Backend, asks: &[&str]) -> Launch {
    let launch = Launch::default().set(&format!("auth.secret={}", tokens::SECRET));
    asks.iter()
        .fold(launch, |launch, ask| launch.set(&format!("backend.{ask}={}", backend.url(&format!("/{ask}")))))
}

/// A client that may do everything as far as its token goes.
fn alice(server: &RunningServer) -> Client {
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe", "publish"]}});
    Client::connect(server.public, &format!("token={}", tokens::sign(&claims, tokens::SECRET)))
}

/// The reply to a command, without its id.
#[track_caller]
fn reply(client: &mut Client, command: &Value) -> Value {
    let mut reply = client.request(&command.to_string());
    let id = reply.as_object_mut().and_then(|reply| reply.remove("id"));
    assert_eq!(id.as_ref(), Some(&command["id"]), "{reply}");
    reply
}

#[track_caller]
fn error_code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {reply}"))
}
