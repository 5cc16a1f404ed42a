//! Hook requests to the backend, including clients' calls.

// Calls, and failures of hook requests in general.
mod call;
// Authentication of clients.
mod connect;
// Authorisation of subscriptions and publishes.
mod permission;

use encke_tests::{Backend, Client, Launch, RunningServer, tokens};
use serde_json::{Value, json};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Configures a server that calls `backend` for these hooks.
fn launch_with_hooks(backend: &Backend, hooks: &[&str]) -> Launch {
    let launch = Launch::default().set(&format!("auth.secret={}", tokens::SECRET));
    hooks.iter().fold(launch, |launch, hook| {
        launch.set(&format!("backend.{hook}={}", backend.url(&format!("/{hook}"))))
    })
}

/// Connects a client whose token allows everything.
fn alice(server: &RunningServer) -> Client {
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe", "publish"]}});
    Client::connect(server.public, &format!("token={}", tokens::sign(&claims, tokens::SECRET)))
}

/// Sends a command and returns the reply without its id.
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
