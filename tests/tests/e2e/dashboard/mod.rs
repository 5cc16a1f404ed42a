//! The dashboard in Chromium: what it shows and which actions it performs.

mod access;
mod channels;
mod hostile;
mod outcomes;
mod overview;
mod pictures;
mod playground;
mod sessions;
mod sign_in;

use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Client, Launch, RunningServer};
use serde_json::{Value, json};

/// Starts a server whose clients have user names.
fn server_with_users(settings: &[&str]) -> RunningServer {
    Launch::with(settings).environment("ENCKE_AUTH__SECRET", SECRET).start()
}

/// Connects a client as this user with all permissions.
fn client_of(server: &RunningServer, user: &str) -> Client {
    let claims = json!({"sub": user, "channels": {"*": ["subscribe", "publish", "presence"]}});
    Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
}

/// Returns the values of `key` in an array of objects, in order.
fn names(array: &Value, key: &str) -> Vec<String> {
    let array = array.as_array().expect("it is an array").iter();
    array.map(|item| item[key].as_str().unwrap_or("none").to_owned()).collect()
}

/// Returns the name in quotes, as in a selector for an attribute.
fn quoted(name: &str) -> String {
    json!(name).to_string()
}
