//! The dashboard in Chromium: what it shows, and what one can do with it.

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

/// A server that takes clients by name.
fn with_names(settings: &[&str]) -> RunningServer {
    Launch::with(settings).environment("ENCKE_AUTH__SECRET", SECRET).start()
}

/// A client with this name, which may do everything.
fn named(server: &RunningServer, user: &str) -> Client {
    let claims = json!({"sub": user, "channels": {"*": ["subscribe", "publish", "presence"]}});
    Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
}

/// The names of an array of objects, in its order.
fn names(array: &Value, key: &str) -> Vec<String> {
    let array = array.as_array().expect("it is an array").iter();
    array.map(|item| item[key].as_str().unwrap_or("none").to_owned()).collect()
}

/// What a selector says of a name in an attribute.
fn quoted(name: &str) -> String {
    json!(name).to_string()
}
