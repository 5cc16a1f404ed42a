use std::time::Duration;

use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

/// Identifies a connection of a session. The owner assigns the numbers, which are unique within the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Capabilities of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// A WebSocket: stays open until it breaks, and needs heartbeats.
    Stream(Heartbeat),
    /// A stream of server-sent events: stays open until it breaks, but the client cannot send on it.
    Events,
    /// A long poll: one request with one response.
    Poll {
        /// How long the request may be held, up to [`super::SessionTimeouts::poll_hold`]. Zero requests an
        /// immediate answer.
        hold: Duration,
    },
}

/// How a stream checks that its client is still connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// RFC 6455 ping frames, which browsers answer without involving JavaScript. Any traffic received
    /// postpones the next ping.
    #[default]
    Frame,
    /// Messages of the dialect, for clients that detect a dead connection by the absence of pings. Never
    /// postponed.
    Message,
}

/// Messages that a client is assumed to have received if it reconnects without a `seq`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Only the messages it acknowledged. Later ones are sent again, and may be duplicated.
    #[default]
    AtLeastOnce,
    /// Every message sent on a connection that did not fail. Messages that a failed connection may have lost
    /// are reported as a gap, so nothing is duplicated.
    AtMostOnce,
}

/// A new connection for a session.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// Id of the connection.
    pub connection: ConnectionId,
    /// Kind of the connection.
    pub kind: ConnectionKind,
    /// Seq of the last message that the client has received, if reported. On a poll, this acknowledges the
    /// messages up to the previous poll's `seq`. It may be lower than that, because overlapping polls may
    /// arrive out of order.
    pub seq: Option<u64>,
    /// How to resume if the client does not send a `seq`.
    pub delivery: DeliveryMode,
    /// When the client's token expires; `None` for a client without a token, or with a token that does not
    /// expire.
    pub token_expires: Option<Timestamp>,
    /// A uniformly distributed random number. The first ping is sent after half an interval to a full
    /// interval, so that clients that connect simultaneously are not all pinged simultaneously.
    pub entropy: u32,
}

/// An input to a session's state machine.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A new connection. Resumes a suspended session, and takes over an attached one. A poll that follows a
    /// poll does neither: it emits no event, and if the earlier poll is still held, the earlier poll is
    /// [superseded](super::Output::Superseded).
    ///
    /// The caller checks [`super::Session::phase`] afterwards. The connection is refused, and nothing
    /// changes, if the session has ended or if the client claims a `seq` that was never sent, which means
    /// that the client is referring to a different session.
    Attach(Attach),
    /// An input from a connection. Ignored unless the session is attached to this connection.
    Connection(ConnectionId, ConnectionInput),
    /// A request with the session's secret, received outside the session's connection, if there is one. It
    /// does not prove that the connection is alive.
    Request(RequestInput),
    /// An administrator closes the connection. The session can be resumed.
    Disconnect,
    /// The session continues in another process. From now on this instance ignores all inputs and timeouts
    /// except [`ConnectionInput::AnswerLost`] and [`Self::MoveFailed`], and its state can be
    /// [saved](super::Session::snapshot).
    Move,
    /// The client has connected to another process, where the session continues. Like [`Self::Move`], but without an
    /// event, because the other process reports the new connection.
    HandOver,
    /// The client has not reached this process, which has [restored](super::Session::restore_attached) its session.
    Detach(SuspendReason),
    /// Another process owns the session, which is dropped without an event: its connection is closed with this
    /// code, and from now on this instance ignores all inputs and timeouts.
    Fence(CloseCode),
    /// The state of a moved session could not be saved, so the session ends. Ignored in all other phases.
    MoveFailed,
    /// Ends the session.
    Close(CloseReason),
}

/// Content of a request received outside the connection. To end the session, use [`Input::Close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestInput {
    /// The client is active; the state machine needs no details.
    Activity,
    /// A command, valid or not, which shows that the client is not idle.
    Command,
    /// The client acknowledges all messages up to `seq`.
    Ack {
        /// Seq of the last message received.
        seq: u64,
    },
    /// The client's token was replaced. Contains the expiry of the new one, if it has one.
    TokenRefreshed(Option<Timestamp>),
}

/// An input from the session's current connection.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionInput {
    /// The bytes of the requested ping are in the kernel.
    PingSent {
        /// The seq that the ping carries: [`super::Outbox::sent`] at the time the ping was encoded.
        seq: u64,
    },
    /// A pong frame: the client's WebSocket implementation has received everything up to `seq`.
    PongFrame {
        /// Seq of the ping.
        seq: u64,
    },
    /// A pong frame, after which pongs acknowledge nothing more until the client asks for messages again.
    /// Therefore no ping is sent just to obtain another acknowledgement.
    LastPongFrame {
        /// Seq of the ping.
        seq: u64,
    },
    /// A pong message: the client application has received everything up to `seq`.
    PongMessage {
        /// Seq of the ping.
        seq: u64,
    },
    /// The client acknowledges all messages up to `seq`.
    Ack {
        /// Seq of the last message received.
        seq: u64,
    },
    /// A command, valid or not, which shows that the client is not idle.
    Command,
    /// Something was taken from the outbox. On a poll, this begins the answer: the session will not request
    /// another.
    Sent,
    /// The answer to a poll is in the kernel.
    Answered {
        /// How long the client was asked to wait before the next poll.
        pause: Duration,
    },
    /// A poll's connection failed after [`Self::Answered`], before the peer's kernel acknowledged the answer.
    /// Accepted from the last poll until the next connection is attached.
    AnswerLost,
    /// The client of a stream asks for an answer as soon as there are messages, or after the hold time at the
    /// latest. If another request is already held, the transport answers that one immediately.
    Hold {
        /// How long the request may be held, up to [`super::SessionTimeouts::poll_hold`]. Zero requests an
        /// immediate answer.
        hold: Duration,
        /// Seq of the last message that the client has received, if reported. All later messages are sent
        /// again. The request is ignored if `seq` was never sent.
        seq: Option<u64>,
    },
    /// The answer to the request held on a stream has been encoded, after everything taken from the outbox so
    /// far. Also reported if the request was answered without being held.
    Released,
    /// The kernel does not accept all bytes, because the peer is not reading.
    WriteHeld,
    /// The kernel has accepted all bytes.
    WriteResumed,
    /// Response to [`super::Output::Probe`]: any bytes found in the kernel have been reported as received.
    Probed,
    /// Response to [`super::Output::Probe`]: the ping is queued behind data that the peer is still receiving.
    PingDelayed,
    /// The client's token was replaced. Contains the expiry of the new one, if it has one.
    TokenRefreshed(Option<Timestamp>),
    /// The connection is closed, or its transport is closing it. For a poll, answered or not, the session
    /// enters [`super::Phase::BetweenPolls`]: clients and proxies routinely abandon polls and poll again.
    Ended(SuspendReason),
    /// The client ended the session, or violated a rule that ends it.
    Close(CloseReason),
}
