//! The `json` dialect: one compact JSON object a text frame, in both directions.
//!
//! [`ServerMessage`] is what the server says, [`parse_command`] reads what a client says. Both ends of the wire
//! are here, so that a client in Rust speaks the same types.

mod command;
mod envelope;
mod server_message;
mod shared_message;

pub use command::{Command, CommandError, Request, Since, parse_command};
pub use server_message::{
    Done, ErrorCode, Gap, Goaway, Hello, Message, Outcome, Ping, Present, Reply, ReplyError, ServerMessage,
    Unsubscribed,
};
pub use shared_message::{CompactJson, SharedMessage};

/// The version that [`Hello`] announces.
pub const VERSION: u32 = 1;

/// How the server asks whether a client is still there (`heartbeat=` in the query).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// RFC 6455 ping frames, which browsers answer below JavaScript. Any traffic heard postpones the next one.
    #[default]
    Frame,
    /// `ping` messages, for clients that must see them to notice that the server is gone: never postponed.
    Message,
}

impl Heartbeat {
    /// Reads the query's value: `frame` or `message`.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "frame" => Some(Self::Frame),
            "message" => Some(Self::Message),
            _ => None,
        }
    }
}

/// The payload of a ping frame: `seq` as eight bytes, big-endian.
#[must_use]
pub const fn ping_payload(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

/// The `seq` that a pong frame echoes; `None` for a pong that answers no ping of ours (RFC 6455 allows those).
#[must_use]
pub fn pong_seq(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests;
