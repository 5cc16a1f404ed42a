use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One object from the server to a client: `{"hello":{..}}`, `{"reply":{..}}`, ...
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage<'a> {
    /// The first object on every connection.
    #[serde(borrow)]
    Hello(Hello<'a>),
    /// The answer to a command.
    #[serde(borrow)]
    Reply(Reply<'a>),
    /// The server is about to close the connection; come back after `retry_ms`.
    #[serde(borrow)]
    Goaway(Goaway<'a>),
    /// A heartbeat (`heartbeat=message`), to be answered by a `pong` with the same `seq`.
    Ping(Ping),
}

impl ServerMessage<'_> {
    /// The object as compact JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("these types have string keys only and cannot fail to serialize")
    }
}

/// What a client needs to keep the session and to come back to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello<'a> {
    /// The dialect's version, [`super::VERSION`].
    pub version: u32,
    /// The session's public id.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The resume token: the id and a secret. Whoever has it can take the session over.
    #[serde(borrow)]
    pub resume: Cow<'a, str>,
    /// True if this is the session that the client asked to resume.
    pub recovered: bool,
    /// The `seq` of the last message sent in this session.
    pub seq: u64,
    /// About how long the server stays silent at most, in milliseconds: allow for the network, and for the server's
    /// `ping_slack`.
    pub ping_interval_ms: u64,
    /// How long the server waits for an answer to a ping, in milliseconds.
    pub pong_timeout_ms: u64,
    /// How long a lost connection can be resumed, in milliseconds.
    pub reconnect_window_ms: u64,
}

/// The answer to the command with the same `id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply<'a> {
    /// The command's `id`, if it had one that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// `"ok":{..}` or `"error":{..}`.
    #[serde(flatten, borrow)]
    pub outcome: Outcome<'a>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<'a> {
    /// It was done.
    Ok {},
    /// It was refused; the connection stays.
    #[serde(borrow)]
    Error(ReplyError<'a>),
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyError<'a> {
    /// For programs.
    pub code: ErrorCode,
    /// For people: names what was wrong.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}

/// The codes of refused commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Not JSON, not exactly one command, or fields that do not fit it.
    Malformed,
    /// No such command.
    UnknownCommand,
}

/// The announcement of a close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goaway<'a> {
    /// Why: the reason of the Close frame that follows.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// How long to wait before coming back, in milliseconds; spread at random over the clients.
    pub retry_ms: u64,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The `seq` of the last message sent before it.
    pub seq: u64,
}
