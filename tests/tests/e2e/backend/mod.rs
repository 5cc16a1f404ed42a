//! The backend's API requests about sessions and users.

use encke_tests::tokens::token;
use encke_tests::{Admin, Client, Hello, HttpResponse, RunningServer};
use serde_json::{Value, json};

// Channels that a token joins.
mod join;
// Direct messages to a session, and to all sessions of a user.
mod send;
// Subscriptions that the backend creates and removes.
mod subscribe;
// Messages and notices on every transport, in every dialect, and after a restart.
mod transports;
// Disconnecting, revoking and listing all sessions of a user.
mod users;

const DISCONNECTED: u16 = 4007;
const KICKED: u16 = 4101;
const UNAUTHORIZED: u16 = 4102;

/// Returns a refresh with a token that permits nothing.
fn refresh_to_nothing() -> String {
    json!({"id": 9, "refresh": {"token": token("alice", json!({"channels": {}}))}}).to_string()
}

#[track_caller]
fn resume(server: &RunningServer, hello: &Hello, query: &str) -> Client {
    let client = Client::connect(server.public, &format!("resume={}&{query}", hello.resume));
    assert!(client.hello.recovered, "{:?}", client.hello);
    client
}

fn revoke(admin: Admin, user: &str) -> HttpResponse {
    admin.request("DELETE", &format!("/api/users/{user}"))
}

#[track_caller]
fn send_to_session(admin: Admin, session: &str, data: impl Into<Value>) -> Value {
    let body = json!({"data": data.into()});
    admin.post(&format!("/api/sessions/{session}/send"), &body).ok()
}

/// Sends a message to a user. Returns the number of sessions that receive it, and its offset.
#[track_caller]
fn send_to_user(admin: Admin, user: &str, data: impl Into<Value>) -> (u64, Option<u64>) {
    let body = json!({"data": data.into()});
    let answer = admin.post(&format!("/api/users/{user}/send"), &body).ok();
    (answer["sessions"].as_u64().expect("a number"), answer["offset"].as_u64())
}

fn subscribe(admin: Admin, session: &str, body: &Value) -> HttpResponse {
    admin.post(&format!("/api/sessions/{session}/subscribe"), body)
}

/// Subscribes the session to a channel. Returns the notice that its client receives.
#[track_caller]
fn subscribe_session(admin: Admin, session: &str, channel: &str) -> Value {
    json!({"subscribed": subscribe(admin, session, &json!({"channel": channel})).ok()})
}

#[track_caller]
fn unsubscribe_session(admin: Admin, session: &str, channel: &str) {
    let path = format!("/api/sessions/{session}/unsubscribe");
    let answer = admin.post(&path, json!({"channel": channel}));
    assert_eq!(answer.status, 204, "{answer:?}");
}

fn message(seq: u64, channel: &str, offset: u64, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({"message": {"seq": seq, "channel": channel, "offset": offset, "data": data}})
}

/// Returns the notice that a subscription has ended.
fn unsubscribed(channel: &str, reason: &str) -> Value {
    json!({"unsubscribed": {"channel": channel, "reason": reason}})
}

fn removed(channel: &str) -> Value {
    unsubscribed(channel, "removed")
}
