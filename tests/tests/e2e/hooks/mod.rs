//! Hook requests to the backend, including clients' calls.

// Calls, and failures of hook requests in general.
mod call;
// Authentication of clients.
mod connect;
// Answers that count as failures, and the log lines about them.
mod failures;
// Clients that must not affect each other.
mod isolation;
// Authorisation of subscriptions and publishes.
mod permission;
// Every cell of the documents' table of permissions.
mod permission_table;
// Channels that the backend replaces.
mod renames;

use encke_tests::{Backend, Client, Launch, tokens};
use serde_json::{Value, json};

/// Configures a server that calls `backend` for these hooks. It has no token keys.
fn launch_without_keys(backend: &Backend, hooks: &[&str]) -> Launch {
    hooks.iter().fold(Launch::default(), |launch, hook| {
        launch.set(&format!("backend.{hook}={}", backend.url(&format!("/{hook}"))))
    })
}

/// Configures a server that accepts tokens and calls `backend` for these hooks.
fn launch_with_hooks(backend: &Backend, hooks: &[&str]) -> Launch {
    launch_without_keys(backend, hooks).set(&format!("auth.secret={}", tokens::SECRET))
}

/// Sends a command and returns the reply without its id.
#[track_caller]
fn reply(client: &mut Client, command: &Value) -> Value {
    let mut reply = client.request(command);
    let id = reply.as_object_mut().and_then(|reply| reply.remove("id"));
    assert_eq!(id.as_ref(), Some(&command["id"]), "{reply}");
    reply
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}
