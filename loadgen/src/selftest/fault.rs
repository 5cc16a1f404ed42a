//! What a server can do wrong: one thing at a time. The server asks here before everything that it could spoil.

use std::time::Duration;

use encke_core::close::CloseCode;

use super::bad_frame::BadFrame;
use super::delivery::Delivery;

/// The message of a session's stream that is spoilt, counted from 0.
const SPOILT: usize = 5;
/// From when an honest server's client has been silent for too long to when that is acted on: servers round up,
/// and a client that reads a ping late must not take the close for an early one.
const SLACK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The honest server.
    None,
    LosesMessage,
    DoublesMessage,
    MisordersMessages,
    ChangesMessage,
    DeliversForeign,
    TellsGap,
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
    CutsWithoutClose,
    ClosesWhoAnswers,
    NeverPings,
    PingsEarly,
    PingsLate,
    GreetsLate,
    UpgradesWrongly,
    NeverGivesUpUpgrades,
    GivesUpUpgradesEarly,
    GivesUpUpgradesLate,
    /// In place of the hello.
    GreetsWithBadFrame(BadFrame),
    /// In place of the first ping.
    SendsBadFrame(BadFrame),
    NeverGivesUpReaders,
    GivesUpSlowReaders,
    GivesUpWithWrongCode,
}

impl Fault {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::LosesMessage => "loses a message",
            Self::DoublesMessage => "delivers a message twice",
            Self::MisordersMessages => "misorders two messages",
            Self::ChangesMessage => "changes a byte of a message",
            Self::DeliversForeign => "delivers what nobody published",
            Self::TellsGap => "drops a message and tells a gap",
            Self::SkipsSeq => "leaves out a seq",
            Self::DelaysMessages => "delivers 400 ms late",
            Self::SkipsOnResume => "loses a message at each resume",
            Self::RepeatsOnResume => "repeats a message at each resume",
            Self::MisstatesSeqOnResume => "greets a resumed session with a wrong seq",
            Self::ForgetsSessions => "forgets sessions inside their window",
            Self::RefusesToResume => "refuses every resume",
            Self::EndsSessionsEarly => "ends sessions half-way through their window",
            Self::KeepsSessionsTooLong => "accepts a session outside its window",
            Self::LeavesBothConnections => "a take-over leaves both connections alive",
            Self::ReplacesWithWrongCode => "closes a replaced connection with a wrong code",
            Self::ClosesEarly => "closes before the pong deadline",
            Self::ClosesLate => "closes 500 ms after the pong deadline",
            Self::NeverCloses => "never closes a mute peer",
            Self::ClosesWithWrongCode => "closes a mute peer with a wrong code",
            Self::CutsWithoutClose => "cuts a mute peer without a Close frame",
            Self::ClosesWhoAnswers => "closes peers that answer",
            Self::NeverPings => "never pings",
            Self::PingsEarly => "pings 50 ms early",
            Self::PingsLate => "pings 200 ms late",
            Self::GreetsLate => "greets 500 ms late",
            Self::UpgradesWrongly => "answers the upgrade with a wrong key",
            Self::NeverGivesUpUpgrades => "never closes who does not upgrade",
            Self::GivesUpUpgradesEarly => "closes before the handshake timeout",
            Self::GivesUpUpgradesLate => "closes 500 ms after the handshake timeout",
            Self::GreetsWithBadFrame(_) => "sends a bad frame in place of the hello",
            Self::SendsBadFrame(frame) => frame.describe(),
            Self::NeverGivesUpReaders => "never gives up a peer that does not read",
            Self::GivesUpSlowReaders => "gives up peers that read slowly",
            Self::GivesUpWithWrongCode => "gives up a peer that does not read with a wrong code",
        }
    }

    /// What happens to the message at this place of this session's stream, both counted from 0.
    pub(super) fn delivery(self, session: u64, place: usize) -> Delivery {
        if session > 0 || place != SPOILT {
            return Delivery::Sent;
        }
        match self {
            Self::LosesMessage => Delivery::Lost,
            Self::DoublesMessage => Delivery::Doubled,
            Self::MisordersMessages => Delivery::HeldBack,
            Self::ChangesMessage => Delivery::Changed,
            Self::DeliversForeign => Delivery::WithForeign,
            Self::TellsGap => Delivery::Gap,
            _ => Delivery::Sent,
        }
    }

    /// The seq of the message at this position of a session's stream.
    pub(super) fn seq_of(self, place: usize) -> u64 {
        place as u64 + if self == Self::SkipsSeq && place >= SPOILT { 2 } else { 1 }
    }

    pub(super) fn delivery_delay(self) -> Duration {
        if self == Self::DelaysMessages { Duration::from_millis(400) } else { Duration::ZERO }
    }

    pub(super) fn greeting_delay(self) -> Duration {
        if self == Self::GreetsLate { Duration::from_millis(500) } else { Duration::ZERO }
    }

    pub(super) fn remembers_sessions(self) -> bool {
        self != Self::ForgetsSessions
    }

    pub(super) fn allows_resume(self) -> bool {
        self != Self::RefusesToResume
    }

    /// How long a session is kept whose connection is gone.
    pub(super) fn window(self, reconnect_window: Duration) -> Duration {
        match self {
            Self::EndsSessionsEarly => reconnect_window / 2,
            Self::KeepsSessionsTooLong => reconnect_window * 10,
            _ => reconnect_window,
        }
    }

    /// With which code a connection is closed whose session another one has taken; `None`: it is not.
    pub(super) fn code_for_replaced(self) -> Option<CloseCode> {
        match self {
            Self::LeavesBothConnections => None,
            Self::ReplacesWithWrongCode => Some(CloseCode::SlowConsumer),
            _ => Some(CloseCode::Replaced),
        }
    }

    /// Where the stream of a session goes on whose client has everything before `place`.
    pub(super) fn resume_at(self, place: usize) -> usize {
        match self {
            Self::SkipsOnResume => place + 1,
            Self::RepeatsOnResume => place.saturating_sub(1),
            _ => place,
        }
    }

    /// The seq that the hello of a resumed session says, which is to go on after this one.
    pub(super) fn greeted_seq(self, seq: u64) -> u64 {
        if self == Self::MisstatesSeqOnResume { seq + 1 } else { seq }
    }

    /// How long a client may be silent before it is pinged.
    pub(super) fn ping_interval(self, told: Duration) -> Option<Duration> {
        match self {
            Self::NeverPings => None,
            Self::PingsEarly => Some(told - Duration::from_millis(50)),
            Self::PingsLate => Some(told + Duration::from_millis(200)),
            _ => Some(told),
        }
    }

    pub(super) fn hears_pongs(self) -> bool {
        self != Self::ClosesWhoAnswers
    }

    /// How long after a ping a client is given up that stays silent; `None`: never.
    pub(super) fn pong_timeout(self, pong_timeout: Duration) -> Option<Duration> {
        match self {
            Self::NeverCloses => None,
            Self::ClosesEarly => Some(pong_timeout / 2),
            Self::ClosesLate => Some(pong_timeout + SLACK + Duration::from_millis(500)),
            _ => Some(pong_timeout + SLACK),
        }
    }

    /// With which code; `None`: without a Close frame.
    pub(super) fn code_for_silence(self) -> Option<CloseCode> {
        match self {
            Self::CutsWithoutClose => None,
            Self::ClosesWithWrongCode => Some(CloseCode::SlowConsumer),
            _ => Some(CloseCode::PongTimeout),
        }
    }

    /// What is sent in place of the hello.
    pub(super) fn bad_greeting(self) -> Option<BadFrame> {
        if let Self::GreetsWithBadFrame(frame) = self { Some(frame) } else { None }
    }

    /// What is sent in place of a ping.
    pub(super) fn bad_ping(self) -> Option<BadFrame> {
        if let Self::SendsBadFrame(frame) = self { Some(frame) } else { None }
    }

    pub(super) fn upgrades_well(self) -> bool {
        self != Self::UpgradesWrongly
    }

    /// How long a client may take to the end of its upgrade.
    pub(super) fn handshake_timeout(self, handshake_timeout: Duration) -> Duration {
        match self {
            Self::NeverGivesUpUpgrades => Duration::from_secs(3600),
            Self::GivesUpUpgradesEarly => handshake_timeout / 2,
            Self::GivesUpUpgradesLate => handshake_timeout + Duration::from_millis(500),
            _ => handshake_timeout,
        }
    }

    /// How long a client may take for one message; `None`: as long as it likes.
    pub(super) fn write_timeout(self, write_timeout: Duration) -> Option<Duration> {
        match self {
            Self::NeverGivesUpReaders => None,
            Self::GivesUpSlowReaders => Some(write_timeout / 5),
            _ => Some(write_timeout),
        }
    }

    /// With which code it is closed then.
    pub(super) fn code_for_slow(self) -> CloseCode {
        if self == Self::GivesUpWithWrongCode { CloseCode::PongTimeout } else { CloseCode::SlowConsumer }
    }
}
