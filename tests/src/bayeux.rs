//! A Bayeux client that sends what it is told, and nothing more.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::admin::HttpResponse;
use crate::raw::RawClient;
use crate::stock::session_of;
use crate::{PollClient, raw};

/// What a POST of JSON needs to say of it.
pub const JSON: &str = "Content-Type: application/json\r\n";

/// A handshake for both transports.
#[must_use]
pub fn handshake() -> Value {
    json!({
        "id": "h", "channel": "/meta/handshake", "version": "1.0",
        "supportedConnectionTypes": ["long-polling", "websocket"],
    })
}

/// A request of the session of `client_id`.
#[must_use]
pub fn connect(client_id: &str) -> Value {
    json!({
        "id": "c", "channel": "/meta/connect", "clientId": client_id, "connectionType": "long-polling",
    })
}

/// The same, to be answered at once.
#[must_use]
pub fn connect_now(client_id: &str) -> Value {
    with_field(connect(client_id), "advice", json!({ "timeout": 0 }))
}

/// The same, which says what has come.
#[must_use]
pub fn connect_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect(client_id), "ext", json!({ "ack": ack }))
}

/// The same, to be answered at once.
#[must_use]
pub fn connect_now_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect_now(client_id), "ext", json!({ "ack": ack }))
}

/// To follow a channel, or an array of them.
#[must_use]
pub fn subscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "s", "channel": "/meta/subscribe", "clientId": client_id, "subscription": channels })
}

/// To follow it no more.
#[must_use]
pub fn unsubscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "u", "channel": "/meta/unsubscribe", "clientId": client_id, "subscription": channels })
}

/// A message of the session.
#[must_use]
pub fn publish(client_id: &str, channel: &str, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({ "id": "p", "channel": channel, "clientId": client_id, "data": data })
}

/// To end the session.
#[must_use]
pub fn disconnect(client_id: &str) -> Value {
    json!({ "id": "d", "channel": "/meta/disconnect", "clientId": client_id })
}

/// The message with one more field.
#[must_use]
pub fn with_field(mut message: Value, field: &str, value: impl Into<Value>) -> Value {
    message[field] = value.into();
    message
}

/// The bytes of `POST path`, with headers besides those that it needs: lines that end in CR LF.
#[must_use]
pub fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// A connection for requests of Bayeux.
#[derive(Debug)]
pub struct BayeuxPolling<S = TcpStream> {
    /// The connection.
    pub requests: PollClient<S>,
}

impl BayeuxPolling {
    /// Connects.
    #[must_use]
    #[track_caller]
    pub fn connect(server: SocketAddr) -> Self {
        Self { requests: PollClient::connect(server) }
    }
}

impl<S: Read + Write> BayeuxPolling<S> {
    /// Takes a connected socket whose reads time out.
    #[must_use]
    pub fn over(stream: S) -> Self {
        Self { requests: PollClient::over(stream) }
    }

    /// Sends a message, or an array, and awaits nothing.
    #[track_caller]
    pub fn send(&mut self, messages: &Value) {
        self.requests.send(&post("/bayeux", JSON, &messages.to_string()));
    }

    /// The messages of the next answer.
    #[must_use]
    #[track_caller]
    pub fn response(&mut self) -> Vec<Value> {
        messages(&self.requests.response())
    }

    /// Sends, and returns the answer.
    #[track_caller]
    pub fn request(&mut self, messages: &Value) -> Vec<Value> {
        self.send(messages);
        self.response()
    }

    /// Sends a message whose reply is all of the answer.
    ///
    /// # Panics
    /// When there is more.
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    /// A new session: its client id.
    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

    /// A new session that has had its first connect, and follows these channels: its client id.
    #[must_use]
    #[track_caller]
    pub fn open(&mut self, channels: &[&str]) -> String {
        open(|message| self.reply(message), channels)
    }
}

/// A WebSocket of Bayeux.
#[derive(Debug)]
pub struct BayeuxWebSocket {
    /// The connection.
    pub raw: RawClient,
}

impl BayeuxWebSocket {
    /// Connects and upgrades.
    #[must_use]
    #[track_caller]
    pub fn connect(server: SocketAddr) -> Self {
        Self::over(RawClient::connect(server))
    }

    /// Upgrades.
    #[must_use]
    #[track_caller]
    pub fn over(mut raw: RawClient) -> Self {
        raw.ask_upgrade_at("/bayeux", "");
        raw.await_upgrade();
        Self { raw }
    }

    /// Sends a message, or an array.
    #[track_caller]
    pub fn send(&mut self, messages: &Value) {
        self.raw.text(&messages.to_string());
    }

    /// The messages that come next. Pings before them are answered.
    ///
    /// # Panics
    /// When something else comes, or nothing.
    #[must_use]
    #[track_caller]
    pub fn messages(&mut self) -> Vec<Value> {
        loop {
            let frame = self.raw.frame();
            if frame.first == raw::PING {
                self.raw.send(&raw::masked(raw::PONG, &frame.payload));
                continue;
            }
            let text = String::from_utf8(frame.payload).expect("the server sends text");
            assert_eq!(frame.first, raw::TEXT, "{text}");
            match serde_json::from_str(&text).expect("the server sends JSON") {
                Value::Array(messages) => return messages,
                other => panic!("no array: {other}"),
            }
        }
    }

    /// Sends a message, and returns what comes up to its reply, which is the last: by its `id`.
    #[track_caller]
    pub fn request(&mut self, message: &Value) -> Vec<Value> {
        self.send(message);
        self.messages_up_to_reply(&message["id"])
    }

    /// What comes up to the reply with this id, which is the last.
    #[track_caller]
    pub fn messages_up_to_reply(&mut self, id: &Value) -> Vec<Value> {
        let mut came = Vec::new();
        loop {
            came.extend(self.messages());
            if came.iter().any(|message| is_reply(message) && message["id"] == *id) {
                return came;
            }
        }
    }

    /// A message's reply, which comes alone.
    ///
    /// # Panics
    /// When something else comes with it.
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    /// A new session: its client id.
    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

    /// A new session that has had its first connect, and follows these channels: its client id.
    #[must_use]
    #[track_caller]
    pub fn open(&mut self, channels: &[&str]) -> String {
        open(|message| self.reply(message), channels)
    }
}

/// The reply to a message, which came alone.
#[track_caller]
fn single_reply(message: &Value, mut came: Vec<Value>) -> Value {
    assert_eq!(came.len(), 1, "{message}: {came:?}");
    came.remove(0)
}

/// Opens a session that has had its first connect, and follows these channels: its client id.
#[track_caller]
fn open(mut reply: impl FnMut(&Value) -> Value, channels: &[&str]) -> String {
    let client_id = client_id(&reply(&handshake()));
    for channel in channels {
        assert_successful(&reply(&subscribe(&client_id, *channel)));
    }
    assert_successful(&reply(&connect_now(&client_id)));
    client_id
}

/// The messages of an answer, which is 200 and an array.
///
/// # Panics
/// When it is something else.
#[must_use]
#[track_caller]
pub fn messages(answer: &HttpResponse) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    match answer.json() {
        Value::Array(messages) => messages,
        other => panic!("no array: {other}"),
    }
}

/// The client id of a handshake's reply.
///
/// # Panics
/// When it was not successful.
#[track_caller]
pub fn client_id(reply: &Value) -> String {
    assert_eq!(reply["channel"], "/meta/handshake", "{reply}");
    assert_successful(reply);
    reply["clientId"].as_str().unwrap_or_else(|| panic!("no client id: {reply}")).to_owned()
}

/// The id of the session.
#[must_use]
pub fn session(client_id: &str) -> String {
    session_of(client_id)
}

/// Whether it answers a message, rather than being one that was published.
#[must_use]
pub fn is_reply(message: &Value) -> bool {
    message.get("successful").is_some()
}

/// What was published, in the order in which it came.
#[must_use]
pub fn events(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|message| !is_reply(message)).map(|message| message["data"].clone()).collect()
}

/// Asserts that a reply is successful.
///
/// # Panics
/// When it is not.
#[track_caller]
pub fn assert_successful(reply: &Value) {
    assert_eq!(reply["successful"], true, "{reply}");
    assert_eq!(reply.get("error"), None, "{reply}");
}

/// Asserts that a reply is not successful, by an error of this code: three digits, arguments and words, with colons between them.
///
/// # Panics
/// When it is anything else.
#[track_caller]
pub fn assert_refused(reply: &Value, code: &str) {
    assert_eq!(reply["successful"], false, "{reply}");
    let error = reply["error"].as_str().unwrap_or_else(|| panic!("no error: {reply}"));
    let parts: Vec<_> = error.splitn(3, ':').collect();
    assert_eq!(parts.len(), 3, "{error}");
    assert_eq!(parts[0], code, "{error}");
    assert!(!parts[2].is_empty(), "{error}");
}
