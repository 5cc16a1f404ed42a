//! A Bayeux client that sends the messages it is given and does nothing on its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::admin::HttpResponse;
use crate::raw::RawClient;
use crate::stock::session_of;
use crate::{PollClient, raw};

/// Header of a POST with a JSON body.
pub const JSON: &str = "Content-Type: application/json\r\n";

/// Builds a handshake that offers both transports.
#[must_use]
pub fn handshake() -> Value {
    json!({
        "id": "h", "channel": "/meta/handshake", "version": "1.0",
        "supportedConnectionTypes": ["long-polling", "websocket"],
    })
}

/// Builds a long-polling connect for the session of `client_id`.
#[must_use]
pub fn connect(client_id: &str) -> Value {
    json!({
        "id": "c", "channel": "/meta/connect", "clientId": client_id, "connectionType": "long-polling",
    })
}

/// Builds a connect that is answered immediately.
#[must_use]
pub fn connect_now(client_id: &str) -> Value {
    with_field(connect(client_id), "advice", json!({ "timeout": 0 }))
}

/// Builds a connect that acknowledges the messages up to `ack`.
#[must_use]
pub fn connect_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect(client_id), "ext", json!({ "ack": ack }))
}

/// Builds a connect that acknowledges the messages up to `ack` and is answered immediately.
#[must_use]
pub fn connect_now_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect_now(client_id), "ext", json!({ "ack": ack }))
}

/// Builds a subscribe message for a channel or an array of channels.
#[must_use]
pub fn subscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "s", "channel": "/meta/subscribe", "clientId": client_id, "subscription": channels })
}

/// Builds an unsubscribe message for a channel or an array of channels.
#[must_use]
pub fn unsubscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "u", "channel": "/meta/unsubscribe", "clientId": client_id, "subscription": channels })
}

/// Builds a publish message.
#[must_use]
pub fn publish(client_id: &str, channel: &str, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({ "id": "p", "channel": channel, "clientId": client_id, "data": data })
}

/// Builds a disconnect message, which ends the session.
#[must_use]
pub fn disconnect(client_id: &str) -> Value {
    json!({ "id": "d", "channel": "/meta/disconnect", "clientId": client_id })
}

/// Adds a field to a message.
#[must_use]
pub fn with_field(mut message: Value, field: &str, value: impl Into<Value>) -> Value {
    message[field] = value.into();
    message
}

/// Bytes of `POST path` with additional headers: lines that end in CR LF.
#[must_use]
pub fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// HTTP connection that carries Bayeux requests.
#[derive(Debug)]
pub struct BayeuxPolling<S = TcpStream> {
    pub requests: PollClient<S>,
}

impl BayeuxPolling {
    #[must_use]
    #[track_caller]
    pub fn connect(server: SocketAddr) -> Self {
        Self { requests: PollClient::connect(server) }
    }
}

impl<S: Read + Write> BayeuxPolling<S> {
    /// Wraps a connected socket that has a read timeout.
    #[must_use]
    pub fn over(stream: S) -> Self {
        Self { requests: PollClient::over(stream) }
    }

    /// Sends a message or an array of messages without waiting for the response.
    #[track_caller]
    pub fn send(&mut self, messages: &Value) {
        self.requests.send(&post("/bayeux", JSON, &messages.to_string()));
    }

    /// Reads the next response and returns its messages.
    #[must_use]
    #[track_caller]
    pub fn response(&mut self) -> Vec<Value> {
        messages(&self.requests.response())
    }

    /// Sends a message or an array of messages and returns the messages of the response.
    #[track_caller]
    pub fn request(&mut self, messages: &Value) -> Vec<Value> {
        self.send(messages);
        self.response()
    }

    /// Sends a message and returns its reply, which must be the only message of the response.
    ///
    /// # Panics
    /// Panics if the response has more messages.
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    /// Opens a session and returns its client id.
    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

    /// Opens a session, subscribes to these channels and completes a first connect. Returns the client id.
    #[must_use]
    #[track_caller]
    pub fn open(&mut self, channels: &[&str]) -> String {
        open(|message| self.reply(message), channels)
    }
}

/// WebSocket with the Bayeux dialect.
#[derive(Debug)]
pub struct BayeuxWebSocket {
    pub raw: RawClient,
}

impl BayeuxWebSocket {
    /// Connects and upgrades.
    #[must_use]
    #[track_caller]
    pub fn connect(server: SocketAddr) -> Self {
        Self::over(RawClient::connect(server))
    }

    /// Upgrades this connection.
    #[must_use]
    #[track_caller]
    pub fn over(mut raw: RawClient) -> Self {
        raw.request_upgrade_at("/bayeux", "");
        raw.await_upgrade();
        Self { raw }
    }

    /// Sends a message or an array of messages.
    #[track_caller]
    pub fn send(&mut self, messages: &Value) {
        self.raw.text(&messages.to_string());
    }

    /// Returns the messages of the next frame. Pings that precede it are answered.
    ///
    /// # Panics
    /// Panics if another kind of frame arrives, or no frame at all.
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
                other => panic!("not an array: {other}"),
            }
        }
    }

    /// Sends a message and returns all messages up to and including its reply, which is recognised by its
    /// `id`.
    #[track_caller]
    pub fn request(&mut self, message: &Value) -> Vec<Value> {
        self.send(message);
        self.messages_up_to_reply(&message["id"])
    }

    /// Returns all messages up to and including the reply with this id.
    #[track_caller]
    pub fn messages_up_to_reply(&mut self, id: &Value) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            received.extend(self.messages());
            if received.iter().any(|message| is_reply(message) && message["id"] == *id) {
                return received;
            }
        }
    }

    /// Sends a message and returns its reply, which must arrive alone.
    ///
    /// # Panics
    /// Panics if another message arrives with it.
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    /// Opens a session and returns its client id.
    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

    /// Opens a session, subscribes to these channels and completes a first connect. Returns the client id.
    #[must_use]
    #[track_caller]
    pub fn open(&mut self, channels: &[&str]) -> String {
        open(|message| self.reply(message), channels)
    }
}

/// Returns the reply to `message`, asserting that nothing else arrived.
#[track_caller]
fn single_reply(message: &Value, mut received: Vec<Value>) -> Value {
    assert_eq!(received.len(), 1, "{message}: {received:?}");
    received.remove(0)
}

/// Opens a session, subscribes to these channels and completes a first connect. Returns the client id.
#[track_caller]
fn open(mut reply: impl FnMut(&Value) -> Value, channels: &[&str]) -> String {
    let client_id = client_id(&reply(&handshake()));
    for channel in channels {
        assert_successful(&reply(&subscribe(&client_id, *channel)));
    }
    assert_successful(&reply(&connect_now(&client_id)));
    client_id
}

/// Returns the messages of a response.
///
/// # Panics
/// Panics if the response is not a 200 with an array.
#[must_use]
#[track_caller]
pub fn messages(answer: &HttpResponse) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    match answer.json() {
        Value::Array(messages) => messages,
        other => panic!("not an array: {other}"),
    }
}

/// Returns the client id of a handshake reply.
///
/// # Panics
/// Panics if the handshake failed.
#[track_caller]
pub fn client_id(reply: &Value) -> String {
    assert_eq!(reply["channel"], "/meta/handshake", "{reply}");
    assert_successful(reply);
    reply["clientId"].as_str().unwrap_or_else(|| panic!("no client id: {reply}")).to_owned()
}

/// Returns the id of the session.
#[must_use]
pub fn session(client_id: &str) -> String {
    session_of(client_id)
}

/// Whether this is a reply, as opposed to a published message.
#[must_use]
pub fn is_reply(message: &Value) -> bool {
    message.get("successful").is_some()
}

/// Returns the data of the published messages, in order of arrival.
#[must_use]
pub fn events(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|message| !is_reply(message)).map(|message| message["data"].clone()).collect()
}

/// Asserts that a reply is successful.
///
/// # Panics
/// Panics if it is not.
#[track_caller]
pub fn assert_successful(reply: &Value) {
    assert_eq!(reply["successful"], true, "{reply}");
    assert_eq!(reply.get("error"), None, "{reply}");
}

/// Asserts that a reply is an error with this code. Its format is three digits, arguments and a text,
/// separated by colons.
///
/// # Panics
/// Panics if the reply is anything else.
#[track_caller]
pub fn assert_refused(reply: &Value, code: &str) {
    assert_eq!(reply["successful"], false, "{reply}");
    let error = reply["error"].as_str().unwrap_or_else(|| panic!("no error: {reply}"));
    let parts: Vec<_> = error.splitn(3, ':').collect();
    assert_eq!(parts.len(), 3, "{error}");
    assert_eq!(parts[0], code, "{error}");
    assert!(!parts[2].is_empty(), "{error}");
}
