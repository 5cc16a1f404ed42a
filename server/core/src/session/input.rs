use std::time::Duration;

use crate::Timestamp;
use crate::close::{CloseReason, SuspendReason};

/// One connection of a session. The owner numbers them; no two connections of a session have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a session can do over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// Open until it breaks, and needs heartbeats: WebSocket.
    Stream(Heartbeat),
    /// Open until it breaks, but the client cannot answer: server-sent events.
    Events,
    /// One request, answered once: long-poll.
    Poll {
        /// How long it may be held, at most [`super::SessionTimeouts::poll_hold`]. Zero asks for an answer at once.
        hold: Duration,
    },
}

/// How a stream asks whether its client is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// RFC 6455 ping frames, which browsers answer below JavaScript. Any traffic received postpones the next one.
    #[default]
    Frame,
    /// Messages of the dialect, for clients that must see them to notice that the server is gone: never postponed.
    Message,
}

/// What a client has that does not say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// What it has acknowledged. What follows is sent again, and may come twice.
    #[default]
    AtLeastOnce,
    /// Whatever was sent to it on a connection that did not fail. What one that failed may have swallowed is told as a gap: nothing
    /// comes twice.
    AtMostOnce,
}

/// A connection that asks for the session.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// Its id.
    pub connection: ConnectionId,
    /// Its kind.
    pub kind: ConnectionKind,
    /// The last message its client has, if it says so. Over a poll this acknowledges what came before, and an earlier one may
    /// follow: of two polls that overlap, the later may be the older.
    pub seq: Option<u64>,
    /// What it has, if it does not say so.
    pub delivery: Delivery,
    /// When the client's token expires, if it has one that does.
    pub token_expires: Option<Timestamp>,
    /// A uniformly random number: the first ping comes after 0.5 to 1.0 of the interval, so that a storm of connects
    /// does not become a storm of pings.
    pub entropy: u32,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A new connection: a resume if the session is suspended, a take-over if it is attached. A poll that follows a poll is
    /// neither: one that is still held is [superseded](super::Output::Superseded), and there is no event.
    ///
    /// Check [`super::Session::phase`] afterwards. The connection is refused, and nothing changes, when the session has
    /// ended or the client claims a `seq` that was never sent: it means another session.
    Attach(Attach),
    /// Something about one connection. Ignored unless the session is attached to that very one.
    Connection(ConnectionId, ConnectionInput),
    /// A request with the session's secret, beside its connection or without one. It is no sign of life of the connection.
    Request(Request),
    /// An administrator drops the connection. The session may resume.
    Disconnect,
    /// The session goes on in another process. Here nothing more happens to it, and nothing of it changes, but for
    /// [`ConnectionInput::AnswerLost`]: it can be [written down](super::Session::snapshot).
    Move,
    /// The session is to end.
    Close(CloseReason),
}

/// What a request beside the connection can bring. To end the session, use [`Input::Close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing that the machine needs to know, but the client is there.
    Heard,
    /// A command, good or bad: the client is not idle.
    Command,
    /// The client acknowledges everything up to `seq`.
    Ack {
        /// The last message that arrived.
        seq: u64,
    },
    /// The client's token was replaced by one that expires then, or never.
    TokenRefreshed(Option<Timestamp>),
}

/// What can happen to the connection of a session.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionInput {
    /// The bytes of the requested ping are in the kernel.
    PingSent {
        /// What it carries: [`super::Outbox::sent`] at the time the ping was encoded.
        seq: u64,
    },
    /// A pong frame: the client's machine has everything up to `seq`.
    PongFrame {
        /// The ping's `seq`.
        seq: u64,
    },
    /// A pong frame, after which no other acknowledges more: what follows, the client has to ask for.
    LastPongFrame {
        /// The ping's `seq`.
        seq: u64,
    },
    /// A pong message: the client itself has everything up to `seq`.
    PongMessage {
        /// The ping's `seq`.
        seq: u64,
    },
    /// The client acknowledges everything up to `seq`.
    Ack {
        /// The last message that arrived.
        seq: u64,
    },
    /// A command, good or bad: the client is not idle.
    Command,
    /// Something was taken from the outbox. On a poll: its answer has begun, and no output asks for another.
    Sent,
    /// A poll's answer is in the kernel.
    Answered {
        /// How long it asks the client to wait before the next poll.
        pause: Duration,
    },
    /// The connection of a poll failed after [`Self::Answered`], before the client's machine had acknowledged the answer. This counts
    /// from whichever poll, until the next connection.
    AnswerLost,
    /// On a stream: the client asks to be answered when there is something new, or else when this has been held long enough.
    /// One that is held already is answered by the transport, at once.
    Hold {
        /// How long it may be held, at most [`super::SessionTimeouts::poll_hold`]. Zero asks for an answer at once.
        hold: Duration,
        /// The last message that the client has, if it says so: it gets all that follows again. The request is ignored if
        /// that was never sent.
        seq: Option<u64>,
    },
    /// The answer to the request that a stream held, or would have held, is encoded, behind all that was taken so far.
    Released,
    /// The peer does not read: there are bytes that the kernel does not take.
    WriteHeld,
    /// The kernel has taken them all.
    WriteResumed,
    /// The answer to [`super::Output::Probe`]: what was found counts as received, by now.
    Probed,
    /// The other answer to [`super::Output::Probe`]: the ping stands behind data that the peer is still taking.
    PingDelayed,
    /// The client's token was replaced by one that expires then, or never.
    TokenRefreshed(Option<Timestamp>),
    /// The connection is gone, or its transport is closing it. A poll that goes unanswered leaves its session between polls,
    /// as an answered one does: clients and proxies give polls up as a matter of course, and poll again.
    Ended(SuspendReason),
    /// The client ended the session, or broke a rule that ends it.
    Close(CloseReason),
}
