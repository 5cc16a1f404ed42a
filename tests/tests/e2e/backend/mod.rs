use std::time::SystemTime;

use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Admin, Client, Hello, HttpResponse, Launch, RunningServer};
use serde_json::{Value, json};

// Channels that a token joins.
mod join;
// Direct messages to a session, and to all sessions of a user.
mod send;
// Subscriptions that the backend creates and removes.
mod subscribe;
// Disconnecting and revoking all sessions of a user.
mod users;

const DISCONNECTED: u16 = 4007;
const KICKED: u16 = 4101;
const UNAUTHORIZED: u16 = 4102;

fn launch() -> Launch {
    Launch::default().environment("ENCKE_AUTH__SECRET", SECRET)
}

/// Seconds since 1970.
fn now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("the clock is after 1970").as_secs_f64()
}

/// Returns a token that was issued just now, with additional claims.
fn token(user: &str, more: Value) -> String {
    let mut claims = json!({"sub": user, "iat": now(), "channels": {"*": ["subscribe", "publish"]}});
    let Value::Object(more) = more else { panic!("claims are an object") };
    claims.as_object_mut().expect("an object").extend(more);
    sign(&claims, SECRET)
}

fn connect(server: &RunningServer, token: &str) -> Client {
    Client::connect(server.public, &format!("token={token}"))
}

fn client_of(server: &RunningServer, user: &str) -> Client {
    connect(server, &token(user, json!({})))
}

/// Asserts that a request has succeeded and returns the body of the response.
#[track_caller]
fn assert_ok(answer: &HttpResponse) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[track_caller]
fn assert_error(answer: &HttpResponse, status: u16, code: &str) {
    assert_eq!((answer.status, &*answer.error_code()), (status, code), "{answer:?}");
}

fn revoke(admin: Admin, user: &str) -> HttpResponse {
    admin.request("DELETE", &format!("/api/users/{user}"))
}

fn message(seq: u64, channel: &str, offset: u64, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({"message": {"seq": seq, "channel": channel, "offset": offset, "data": data}})
}

#[track_caller]
fn resume(server: &RunningServer, hello: &Hello, query: &str) -> Client {
    let client = Client::connect(server.public, &format!("resume={}&{query}", hello.resume));
    assert!(client.hello.recovered, "{:?}", client.hello);
    client
}
