//! Behaviour of the server of the self-test and of the tests.

use std::time::Duration;

use encke_core::close::CloseCode;

/// Choices of the server. The honest server is [`HONEST`]; every other server differs from it in one field.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub opening: Opening,
    pub hello_delay: Duration,
    /// Invalid frame that is sent instead of the hello.
    pub bytes_for_hello: Option<&'static [u8]>,
    /// Objects that follow the hello, before any message.
    pub after_hello: &'static [&'static str],
    pub close_after_hello: Option<u16>,
    pub remembers_sessions: bool,
    /// Number added to the seq in the hello of a resumed session.
    pub hello_seq_error: u64,
    /// Number of messages that are lost at each resume; if negative, repeated.
    pub resume_error: isize,
    /// How the sixth message is delivered to the first session.
    pub delivery: Delivery,
    pub delivery_delay: Duration,
    /// How long a client may be silent before it is pinged. `None`: it is never pinged.
    pub ping_interval: Option<Duration>,
    /// Invalid frame that is sent instead of a ping.
    pub bytes_for_ping: Option<&'static [u8]>,
    pub accepts_pongs: bool,
    /// How long after a ping a silent client is disconnected. `None`: never.
    pub pong_timeout: Option<Duration>,
    /// Code for closing a silent client. `None`: without a Close frame.
    pub code_for_silence: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Normal,
    /// The socket is closed after this response to the upgrade, which may be empty.
    Refuse(&'static str),
    WrongAcceptKey,
    /// A Close frame with this code is sent instead of the hello.
    Close(u16),
    /// The same, if the client wants to resume a session.
    CloseIfResuming(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Sent,
    Lost,
    Doubled,
    /// Sent after the next message.
    HeldBack,
    Changed,
    /// Sent, followed by a message that was never published.
    WithForeign,
    /// A gap is sent instead of the message.
    Gap,
    /// Sent with the seq of the next message.
    SeqSkipped,
}

/// Ping interval and pong timeout that the hello announces.
pub const PING_INTERVAL: Duration = Duration::from_millis(150);
pub const PONG_TIMEOUT: Duration = Duration::from_millis(300);

/// The honest server. It closes a silent client 50 ms late: servers round up, and a client that reads a ping
/// late must not count the close as early.
pub const HONEST: Behaviour = Behaviour {
    opening: Opening::Normal,
    hello_delay: Duration::ZERO,
    bytes_for_hello: None,
    after_hello: &[],
    close_after_hello: None,
    remembers_sessions: true,
    hello_seq_error: 0,
    resume_error: 0,
    delivery: Delivery::Sent,
    delivery_delay: Duration::ZERO,
    ping_interval: Some(PING_INTERVAL),
    bytes_for_ping: None,
    accepts_pongs: true,
    pong_timeout: Some(Duration::from_millis(350)),
    code_for_silence: Some(CloseCode::PongTimeout.code()),
};
