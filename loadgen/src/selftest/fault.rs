//! Faults of the self-test's server. The server has at most one fault, and consults it before every action
//! that it could get wrong.

use std::time::Duration;

use encke_core::close::CloseCode;

use super::delivery::DeliveryFault;
use super::invalid_frame::InvalidFrame;

/// Index of the affected message in a session's stream, counted from 0.
const AFFECTED_MESSAGE: usize = 5;
/// Additional time before an honest server closes a silent client. Servers round up, and a client that reads
/// a ping late must not count the close as early.
const SLACK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No fault: the honest server.
    None,
    LosesMessage,
    DoublesMessage,
    MisordersMessages,
    ChangesMessage,
    DeliversForeign,
    SendsGap,
    SkipsSeq,
    DelaysMessages,
    SkipsOnResume,
    RepeatsOnResume,
    MisstatesSeqOnResume,
    ForgetsSessions,
    RefusesToResume,
    EndsSessionsEarly,
    KeepsSessionsTooLong,
    LeavesBothConnections,
    ReplacesWithWrongCode,
    ClosesEarly,
    ClosesLate,
    NeverCloses,
    ClosesWithWrongCode,
    DisconnectsWithoutClose,
    ClosesAnsweringClients,
    NeverPings,
    PingsEarly,
    PingsLate,
    SendsHelloLate,
    SendsWrongAcceptKey,
    NeverTimesOutUpgrades,
    TimesOutUpgradesEarly,
    TimesOutUpgradesLate,
    /// Sends this frame instead of the hello.
    SendsInvalidFrameForHello(InvalidFrame),
    /// Sends this frame instead of the first ping.
    SendsInvalidFrameForPing(InvalidFrame),
    NeverClosesStalledReaders,
    ClosesSlowReaders,
    ClosesStalledReadersWithWrongCode,
}

impl Fault {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::LosesMessage => "loses a message",
            Self::DoublesMessage => "delivers a message twice",
            Self::MisordersMessages => "misorders two messages",
            Self::ChangesMessage => "changes a byte of a message",
            Self::DeliversForeign => "delivers a message that was never published",
            Self::SendsGap => "drops a message and reports a gap",
            Self::SkipsSeq => "skips a seq",
            Self::DelaysMessages => "delivers 400 ms late",
            Self::SkipsOnResume => "loses a message at each resume",
            Self::RepeatsOnResume => "repeats a message at each resume",
            Self::MisstatesSeqOnResume => "sends a wrong seq in the hello of a resumed session",
            Self::ForgetsSessions => "forgets sessions within their window",
            Self::RefusesToResume => "refuses every resume",
            Self::EndsSessionsEarly => "ends sessions half-way through their window",
            Self::KeepsSessionsTooLong => "resumes a session after its window",
            Self::LeavesBothConnections => "a take-over leaves both connections alive",
            Self::ReplacesWithWrongCode => "closes a replaced connection with a wrong code",
            Self::ClosesEarly => "closes before the pong deadline",
            Self::ClosesLate => "closes 500 ms after the pong deadline",
            Self::NeverCloses => "never closes a mute peer",
            Self::ClosesWithWrongCode => "closes a mute peer with a wrong code",
            Self::DisconnectsWithoutClose => "disconnects a mute peer without a Close frame",
            Self::ClosesAnsweringClients => "closes clients that answer",
            Self::NeverPings => "never pings",
            Self::PingsEarly => "pings 50 ms early",
            Self::PingsLate => "pings 200 ms late",
            Self::SendsHelloLate => "sends the hello 500 ms late",
            Self::SendsWrongAcceptKey => "answers the upgrade with a wrong key",
            Self::NeverTimesOutUpgrades => "never closes clients that do not upgrade",
            Self::TimesOutUpgradesEarly => "closes before the handshake timeout",
            Self::TimesOutUpgradesLate => "closes 500 ms after the handshake timeout",
            Self::SendsInvalidFrameForHello(_) => "sends an invalid frame instead of the hello",
            Self::SendsInvalidFrameForPing(frame) => frame.describe(),
            Self::NeverClosesStalledReaders => "never closes a client that does not read",
            Self::ClosesSlowReaders => "closes clients that read slowly",
            Self::ClosesStalledReadersWithWrongCode => "closes a client that does not read with a wrong code",
        }
    }

    /// Returns how a message is delivered. `session` and `place`, its position in the session's stream, are
    /// counted from 0.
    pub(super) fn delivery(self, session: u64, place: usize) -> DeliveryFault {
        if session > 0 || place != AFFECTED_MESSAGE {
            return DeliveryFault::Sent;
        }
        match self {
            Self::LosesMessage => DeliveryFault::Lost,
            Self::DoublesMessage => DeliveryFault::Doubled,
            Self::MisordersMessages => DeliveryFault::HeldBack,
            Self::ChangesMessage => DeliveryFault::Changed,
            Self::DeliversForeign => DeliveryFault::WithForeign,
            Self::SendsGap => DeliveryFault::Gap,
            _ => DeliveryFault::Sent,
        }
    }

    /// Returns the seq of the message at this position of a session's stream.
    pub(super) fn seq_of(self, place: usize) -> u64 {
        place as u64 + if self == Self::SkipsSeq && place >= AFFECTED_MESSAGE { 2 } else { 1 }
    }

    pub(super) fn delivery_delay(self) -> Duration {
        if self == Self::DelaysMessages { Duration::from_millis(400) } else { Duration::ZERO }
    }

    pub(super) fn hello_delay(self) -> Duration {
        if self == Self::SendsHelloLate { Duration::from_millis(500) } else { Duration::ZERO }
    }

    pub(super) fn remembers_sessions(self) -> bool {
        self != Self::ForgetsSessions
    }

    pub(super) fn allows_resume(self) -> bool {
        self != Self::RefusesToResume
    }

    /// Returns how long a session is kept after its connection has closed.
    pub(super) fn window(self, reconnect_window: Duration) -> Duration {
        match self {
            Self::EndsSessionsEarly => reconnect_window / 2,
            Self::KeepsSessionsTooLong => reconnect_window * 10,
            _ => reconnect_window,
        }
    }

    /// Returns the code for closing a connection whose session was taken over. `None`: the connection stays
    /// open.
    pub(super) fn code_for_replaced(self) -> Option<CloseCode> {
        match self {
            Self::LeavesBothConnections => None,
            Self::ReplacesWithWrongCode => Some(CloseCode::SlowConsumer),
            _ => Some(CloseCode::Replaced),
        }
    }

    /// Returns the position from which the stream of a resumed session continues, if the client has
    /// everything before `place`.
    pub(super) fn resume_position(self, place: usize) -> usize {
        match self {
            Self::SkipsOnResume => place + 1,
            Self::RepeatsOnResume => place.saturating_sub(1),
            _ => place,
        }
    }

    /// Returns the seq in the hello of a resumed session. `seq` is the last seq that the client has.
    pub(super) fn hello_seq(self, seq: u64) -> u64 {
        if self == Self::MisstatesSeqOnResume { seq + 1 } else { seq }
    }

    /// Returns how long a client may be silent before it is pinged.
    pub(super) fn ping_interval(self, announced: Duration) -> Option<Duration> {
        match self {
            Self::NeverPings => None,
            Self::PingsEarly => Some(announced - Duration::from_millis(50)),
            Self::PingsLate => Some(announced + Duration::from_millis(200)),
            _ => Some(announced),
        }
    }

    pub(super) fn accepts_pongs(self) -> bool {
        self != Self::ClosesAnsweringClients
    }

    /// Returns how long after a ping a silent client is disconnected. `None`: never.
    pub(super) fn pong_timeout(self, pong_timeout: Duration) -> Option<Duration> {
        match self {
            Self::NeverCloses => None,
            Self::ClosesEarly => Some(pong_timeout / 2),
            Self::ClosesLate => Some(pong_timeout + SLACK + Duration::from_millis(500)),
            _ => Some(pong_timeout + SLACK),
        }
    }

    /// Returns the code for closing a silent client. `None`: without a Close frame.
    pub(super) fn code_for_silence(self) -> Option<CloseCode> {
        match self {
            Self::DisconnectsWithoutClose => None,
            Self::ClosesWithWrongCode => Some(CloseCode::SlowConsumer),
            _ => Some(CloseCode::PongTimeout),
        }
    }

    /// Returns the frame that is sent instead of the hello.
    pub(super) fn frame_for_hello(self) -> Option<InvalidFrame> {
        if let Self::SendsInvalidFrameForHello(frame) = self { Some(frame) } else { None }
    }

    /// Returns the frame that is sent instead of a ping.
    pub(super) fn frame_for_ping(self) -> Option<InvalidFrame> {
        if let Self::SendsInvalidFrameForPing(frame) = self { Some(frame) } else { None }
    }

    pub(super) fn sends_correct_accept_key(self) -> bool {
        self != Self::SendsWrongAcceptKey
    }

    /// Returns how long a client may take to complete its upgrade.
    pub(super) fn handshake_timeout(self, handshake_timeout: Duration) -> Duration {
        match self {
            Self::NeverTimesOutUpgrades => Duration::from_secs(3600),
            Self::TimesOutUpgradesEarly => handshake_timeout / 2,
            Self::TimesOutUpgradesLate => handshake_timeout + Duration::from_millis(500),
            _ => handshake_timeout,
        }
    }

    /// Returns how long a client may take to receive one message. `None`: without limit.
    pub(super) fn write_timeout(self, write_timeout: Duration) -> Option<Duration> {
        match self {
            Self::NeverClosesStalledReaders => None,
            Self::ClosesSlowReaders => Some(write_timeout / 5),
            _ => Some(write_timeout),
        }
    }

    /// Returns the code for closing a client that exceeds the write timeout.
    pub(super) fn code_for_slow(self) -> CloseCode {
        if self == Self::ClosesStalledReadersWithWrongCode {
            CloseCode::PongTimeout
        } else {
            CloseCode::SlowConsumer
        }
    }
}
