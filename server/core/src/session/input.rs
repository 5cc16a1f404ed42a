use crate::Timestamp;
use crate::close::{CloseReason, SuspendReason};
use crate::dialect::json::Heartbeat;

/// One connection of a session. Whoever makes connections numbers them; no two of a session are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a connection is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Open until it breaks, in need of heartbeats: WebSocket.
    Stream(Heartbeat),
    /// Open until it breaks, but the client cannot answer: server-sent events.
    Events,
    /// One request, answered once: long-poll.
    Poll,
}

/// A connection that wants the session.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// Its id.
    pub connection: ConnectionId,
    /// What it is good for.
    pub carrier: Carrier,
    /// The last message its client has, if it says so.
    pub seq: Option<u64>,
    /// When the client's token runs out, if it has one that does.
    pub token_expires: Option<Timestamp>,
    /// Any number, evenly spread: the first ping comes after 0.5 to 1.0 of the interval, so that clients that
    /// come in a storm are not asked in one.
    pub entropy: u32,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A connection comes: for a suspended session a resume, for an attached one a take-over.
    ///
    /// Look at [`super::Session::phase`] afterwards. It is refused, and nothing changes, when the session has
    /// ended or the client claims a `seq` that was never sent: this is not the session it means.
    Attach(Attach),
    /// Something about one connection. Ignored unless the session is attached to that very one.
    Connection(ConnectionId, ConnectionInput),
    /// An administrator drops the connection. The session may resume.
    Disconnect,
    /// The session is to end.
    Close(CloseReason),
}

/// What can happen to the connection of a session.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionInput {
    /// The ping asked for has left for the kernel.
    PingSent {
        /// What it carries: [`super::Outbox::sent`] as it was when the ping was encoded.
        seq: u64,
    },
    /// A pong frame: the client's machine has everything up to `seq`.
    PongFrame {
        /// The ping's `seq`.
        seq: u64,
    },
    /// A pong message: the client itself has everything up to `seq`.
    PongMessage {
        /// The ping's `seq`.
        seq: u64,
    },
    /// The client says that everything up to `seq` has arrived.
    Ack {
        /// The last message that arrived.
        seq: u64,
    },
    /// A command, good or bad: the client is not idle.
    Command,
    /// Something was taken from the outbox.
    Sent,
    /// The peer does not read: bytes wait that the kernel does not take.
    WriteHeld,
    /// The kernel has taken them all.
    WriteResumed,
    /// What [`super::Output::Probe`] asked for is done: if the kernel held bytes, they count as heard.
    Probed,
    /// The client's token was replaced by one that runs out then, or never.
    TokenRefreshed(Option<Timestamp>),
    /// The connection is gone, or its transport is closing it.
    Ended(SuspendReason),
    /// The client ended the session, or broke a rule that ends it.
    Close(CloseReason),
}
