//! State shared by all connections: sessions and channels.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use encke_core::dialect::json::Hello;

use super::session::FaultySession;
use crate::selftest::fault::Fault;

pub(super) const PING_INTERVAL: Duration = Duration::from_millis(150);
pub(super) const PONG_TIMEOUT: Duration = Duration::from_millis(300);
pub(super) const RECONNECT_WINDOW: Duration = Duration::from_secs(1);
/// How long a client may take to complete its upgrade.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client may take to receive one message.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of messages per channel. There must be a limit because sessions keep every object they were
/// sent.
const MAX_MESSAGES: u64 = 10_000;

pub(super) struct ServerState {
    pub(super) fault: Fault,
    sessions: RefCell<BTreeMap<u64, Rc<FaultySession>>>,
    next_session: Cell<u64>,
    /// Last offset of each channel.
    channels: RefCell<BTreeMap<String, u64>>,
}

/// The session that a client wants to resume, and the last seq that the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumeRequest {
    session: u64,
    seq: u64,
}

/// A session and the state in which its new connection begins.
pub(super) struct AttachedSession {
    pub(super) session: Rc<FaultySession>,
    pub(super) recovered: bool,
    /// Seq in the hello. The next message has the following seq.
    pub(super) seq: u64,
    /// Position in the stream that corresponds to `seq`.
    pub(super) position: usize,
}

impl ServerState {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, sessions: RefCell::default(), next_session: Cell::new(0), channels: RefCell::default() }
    }

    /// Returns the session that the client wants to resume, or a new one.
    pub(super) fn attach(&self, resume: Option<ResumeRequest>) -> AttachedSession {
        let resume = resume.filter(|_| self.fault.remembers_sessions());
        let found = resume.and_then(|ResumeRequest { session, seq }| {
            let session = self.sessions.borrow().get(&session).cloned()?;
            let had = usize::try_from(seq).ok().filter(|_| seq <= session.last_seq())?;
            let (seq, place) = (self.fault.hello_seq(seq), self.fault.resume_position(had));
            Some(AttachedSession { session, recovered: true, seq, position: place })
        });
        found.unwrap_or_else(|| AttachedSession {
            session: self.open_session(),
            recovered: false,
            seq: 0,
            position: 0,
        })
    }

    fn open_session(&self) -> Rc<FaultySession> {
        let id = self.next_session.replace(self.next_session.get() + 1);
        let session = Rc::new(FaultySession::new(id, self.fault));
        self.sessions.borrow_mut().insert(id, session.clone());
        session
    }

    pub(super) fn end(&self, session: &FaultySession) {
        self.sessions.borrow_mut().remove(&session.id());
    }

    /// Returns the last offset of a channel.
    pub(super) fn offset_of(&self, channel: &str) -> u64 {
        self.channels.borrow().get(channel).copied().unwrap_or(0)
    }

    /// Delivers a message to all subscribers and returns its offset. `None` if the channel is full.
    pub(super) fn publish(&self, channel: &str, data: &str) -> Option<u64> {
        let offset = self.offset_of(channel) + 1;
        if offset > MAX_MESSAGES {
            return None;
        }
        self.channels.borrow_mut().insert(channel.to_owned(), offset);
        for session in self.sessions.borrow().values() {
            session.publish(channel, offset, data);
        }
        Some(offset)
    }
}

impl ResumeRequest {
    /// Parses `resume=<token>&seq=<n>`, with a token from [`hello`].
    pub(super) fn parse(query: &str) -> Option<Self> {
        let value = |name| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let session = value("resume")?.strip_prefix("s_")?.strip_suffix(".secret")?.parse().ok()?;
        Some(Self { session, seq: value("seq")?.parse().ok()? })
    }
}

pub(super) fn hello(attached: &AttachedSession) -> Hello<'static> {
    let AttachedSession { session, recovered, seq, .. } = attached;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Hello {
        version: 1,
        session: format!("s_{}", session.id()).into(),
        resume: format!("s_{}.secret", session.id()).into(),
        recovered: *recovered,
        seq: *seq,
        ping_interval_ms: millis(PING_INTERVAL),
        pong_timeout_ms: millis(PONG_TIMEOUT),
        reconnect_window_ms: millis(RECONNECT_WINDOW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_resumed_with_the_token_of_its_hello() {
        let world = ServerState::new(Fault::None);
        let attached = world.attach(None);
        let hello = hello(&attached);
        let resume = ResumeRequest::parse(&format!("resume={}&seq={}", hello.resume, hello.seq));
        assert_eq!(resume, Some(ResumeRequest { session: 0, seq: 0 }));
        assert!(world.attach(resume).recovered);
        assert!(
            !world.attach(Some(ResumeRequest { session: 0, seq: 1 })).recovered,
            "that seq was never sent"
        );
        for bad in ["", "resume=s_0.secret", "resume=s_0&seq=1", "resume=s_0.secret&seq=x", "seq=1"] {
            assert_eq!(ResumeRequest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_full_channel_rejects_messages() {
        let world = ServerState::new(Fault::None);
        for offset in 1..=MAX_MESSAGES {
            assert_eq!(world.publish("news", "1"), Some(offset));
        }
        assert_eq!(world.publish("news", "1"), None);
        assert_eq!(world.publish("other", "1"), Some(1));
    }
}
