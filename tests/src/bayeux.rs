//! A Bayeux client that sends the messages it is given and does nothing on its own.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::connection::Transport;
use crate::http::HttpResponse;
pub use crate::http::post;
use crate::raw::RawClient;
use crate::{PollClient, raw};

/// Header of a POST with a JSON body.
pub const JSON: &str = "Content-Type: application/json\r\n";

/// Builds a handshake that offers both transports.
pub fn handshake() -> Value {
    json!({
        "id": "h", "channel": "/meta/handshake", "version": "1.0",
        "supportedConnectionTypes": ["long-polling", "websocket"],
    })
}

/// Builds a long-polling connect for the session of `client_id`.
pub fn connect(client_id: &str) -> Value {
    json!({
        "id": "c", "channel": "/meta/connect", "clientId": client_id, "connectionType": "long-polling",
    })
}

/// Builds a connect that is answered immediately.
pub fn connect_now(client_id: &str) -> Value {
    with_field(connect(client_id), "advice", json!({ "timeout": 0 }))
}

/// Builds a connect that acknowledges the messages up to `ack`.
pub fn connect_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect(client_id), "ext", json!({ "ack": ack }))
}

/// Builds a connect that acknowledges the messages up to `ack` and is answered immediately.
pub fn connect_now_with_ack(client_id: &str, ack: u64) -> Value {
    with_field(connect_now(client_id), "ext", json!({ "ack": ack }))
}

/// Builds a subscribe message for a channel or an array of channels.
pub fn subscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "s", "channel": "/meta/subscribe", "clientId": client_id, "subscription": channels })
}

/// Builds an unsubscribe message for a channel or an array of channels.
pub fn unsubscribe(client_id: &str, channels: impl Into<Value>) -> Value {
    let channels: Value = channels.into();
    json!({ "id": "u", "channel": "/meta/unsubscribe", "clientId": client_id, "subscription": channels })
}

pub fn publish(client_id: &str, channel: &str, data: impl Into<Value>) -> Value {
    let data: Value = data.into();
    json!({ "id": "p", "channel": channel, "clientId": client_id, "data": data })
}

pub fn disconnect(client_id: &str) -> Value {
    json!({ "id": "d", "channel": "/meta/disconnect", "clientId": client_id })
}

/// Adds a token to a message.
pub fn with_token(message: Value, token: &str) -> Value {
    with_field(message, "ext", json!({ "authentication": { "token": token } }))
}

pub fn with_field(mut message: Value, field: &str, value: impl Into<Value>) -> Value {
    message[field] = value.into();
    message
}

/// HTTP connection that carries Bayeux requests.
#[derive(Debug)]
pub struct BayeuxPolling<S = TcpStream> {
    pub requests: PollClient<S>,
}

impl BayeuxPolling {
    pub fn connect(server: SocketAddr) -> Self {
        Self { requests: PollClient::connect(server) }
    }

    /// Connects and [opens](Self::open) a session. Returns its client id, too.
    #[track_caller]
    pub fn opened(server: SocketAddr, channels: &[&str]) -> (Self, String) {
        let mut polls = Self::connect(server);
        let client_id = polls.open(channels);
        (polls, client_id)
    }
}

impl<S: Transport> BayeuxPolling<S> {
    pub fn over(stream: S) -> Self {
        Self { requests: PollClient::over(stream) }
    }

    /// Sends a message or an array of messages without waiting for the response.
    pub fn send(&mut self, messages: &Value) {
        self.requests.send(post("/bayeux", JSON, &messages.to_string()));
    }

    /// Reads the next response and returns its messages.
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
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

    /// Opens a session, subscribes to these channels and completes a first connect. Returns the client id.
    #[track_caller]
    pub fn open(&mut self, channels: &[&str]) -> String {
        open(|message| self.reply(message), channels)
    }
}

#[derive(Debug)]
pub struct BayeuxWebSocket {
    pub raw: RawClient,
}

impl BayeuxWebSocket {
    pub fn connect(server: SocketAddr) -> Self {
        Self::over(RawClient::connect(server))
    }

    /// Like [`BayeuxPolling::opened`], on a WebSocket.
    #[track_caller]
    pub fn opened(server: SocketAddr, channels: &[&str]) -> (Self, String) {
        let mut socket = Self::connect(server);
        let client_id = socket.open(channels);
        (socket, client_id)
    }

    pub fn over(mut raw: RawClient) -> Self {
        raw.request_upgrade_at("/bayeux", "");
        raw.await_upgrade();
        Self { raw }
    }

    pub fn send(&mut self, messages: &Value) {
        self.raw.text(&messages.to_string());
    }

    /// Returns the messages of the next frame. Pings that precede it are answered.
    #[track_caller]
    pub fn messages(&mut self) -> Vec<Value> {
        loop {
            let frame = self.raw.frame();
            if frame.first == raw::PING {
                self.raw.send(raw::masked(raw::PONG, &frame.payload));
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
    #[track_caller]
    pub fn reply(&mut self, message: &Value) -> Value {
        single_reply(message, self.request(message))
    }

    #[track_caller]
    pub fn handshake(&mut self) -> String {
        client_id(&self.reply(&handshake()))
    }

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

#[track_caller]
fn open(mut reply: impl FnMut(&Value) -> Value, channels: &[&str]) -> String {
    let client_id = client_id(&reply(&handshake()));
    for channel in channels {
        assert_successful(&reply(&subscribe(&client_id, *channel)));
    }
    assert_successful(&reply(&connect_now(&client_id)));
    client_id
}

#[track_caller]
pub fn messages(answer: &HttpResponse) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    match answer.json() {
        Value::Array(messages) => messages,
        other => panic!("not an array: {other}"),
    }
}

#[track_caller]
pub fn client_id(reply: &Value) -> String {
    assert_eq!(reply["channel"], "/meta/handshake", "{reply}");
    assert_successful(reply);
    reply["clientId"].as_str().unwrap_or_else(|| panic!("no client id: {reply}")).to_owned()
}

/// Returns the id of the session that a client id belongs to.
pub fn session(client_id: &str) -> String {
    client_id.split('.').next().unwrap_or_default().to_owned()
}

/// Whether this is a reply, as opposed to a published message.
pub fn is_reply(message: &Value) -> bool {
    message.get("successful").is_some()
}

/// Returns the data of the published messages, in order of arrival.
pub fn events(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|message| !is_reply(message)).map(|message| message["data"].clone()).collect()
}

#[track_caller]
pub fn assert_successful(reply: &Value) {
    assert_eq!(reply["successful"], true, "{reply}");
    assert_eq!(reply.get("error"), None, "{reply}");
}

/// Asserts that a reply is an error with this code. Its format is three digits, arguments and a text,
/// separated by colons.
#[track_caller]
pub fn assert_refused(reply: &Value, code: &str) {
    assert_eq!(reply["successful"], false, "{reply}");
    let error = reply["error"].as_str().unwrap_or_else(|| panic!("no error: {reply}"));
    let parts: Vec<_> = error.splitn(3, ':').collect();
    assert_eq!(parts.len(), 3, "{error}");
    assert_eq!(parts[0], code, "{error}");
    assert!(!parts[2].is_empty(), "{error}");
}
