//! State shared by all connections: sessions and channels.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use encke_core::dialect::json::Hello;

use super::session::Session;
use crate::selftest::fault::Fault;

pub(super) const PING_INTERVAL: Duration = Duration::from_millis(150);
pub(super) const PONG_TIMEOUT: Duration = Duration::from_millis(300);
pub(super) const RECONNECT_WINDOW: Duration = Duration::from_secs(1);
/// Time that a client has to complete its upgrade.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that a client has to receive one message.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of messages per channel: sessions keep everything they were sent.
const MAX_MESSAGES: u64 = 10_000;

pub(super) struct World {
    pub(super) fault: Fault,
    sessions: RefCell<BTreeMap<u64, Rc<Session>>>,
    next_session: Cell<u64>,
    /// Last offset of each channel.
    channels: RefCell<BTreeMap<String, u64>>,
}

/// Session that a client wants to resume, and the last seq it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resume {
    session: u64,
    seq: u64,
}

/// Session as its new connection finds it.
pub(super) struct Attached {
    pub(super) session: Rc<Session>,
    pub(super) recovered: bool,
    /// Seq of the hello. The next message has the following one.
    pub(super) seq: u64,
    /// Corresponding position in the stream.
    pub(super) place: usize,
}

impl World {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, sessions: RefCell::default(), next_session: Cell::new(0), channels: RefCell::default() }
    }

    /// Returns the session that the client wants to resume, or a new one.
    pub(super) fn attach(&self, resume: Option<Resume>) -> Attached {
        let resume = resume.filter(|_| self.fault.remembers_sessions());
        let found = resume.and_then(|Resume { session, seq }| {
            let session = self.sessions.borrow().get(&session).cloned()?;
            let had = usize::try_from(seq).ok().filter(|_| seq <= session.last_seq())?;
            let (seq, place) = (self.fault.greeted_seq(seq), self.fault.resume_at(had));
            Some(Attached { session, recovered: true, seq, place })
        });
        found.unwrap_or_else(|| Attached { session: self.open_session(), recovered: false, seq: 0, place: 0 })
    }

    fn open_session(&self) -> Rc<Session> {
        let id = self.next_session.replace(self.next_session.get() + 1);
        let session = Rc::new(Session::new(id, self.fault));
        self.sessions.borrow_mut().insert(id, session.clone());
        session
    }

    pub(super) fn end(&self, session: &Session) {
        self.sessions.borrow_mut().remove(&session.id());
    }

    /// Returns the last offset of a channel.
    pub(super) fn offset_of(&self, channel: &str) -> u64 {
        self.channels.borrow().get(channel).copied().unwrap_or(0)
    }

    /// Delivers a message to all subscribers. `None` if the channel is full.
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

impl Resume {
    /// Parses `resume=<token>&seq=<n>`, with a token from [`hello`].
    pub(super) fn parse(query: &str) -> Option<Self> {
        let value = |name| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let session = value("resume")?.strip_prefix("s_")?.strip_suffix(".secret")?.parse().ok()?;
        Some(Self { session, seq: value("seq")?.parse().ok()? })
    }
}

pub(super) fn hello(attached: &Attached) -> Hello<'static> {
    let Attached { session, recovered, seq, .. } = attached;
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
    fn a_client_comes_back_with_what_the_hello_said() {
        let world = World::new(Fault::None);
        let attached = world.attach(None);
        let hello = hello(&attached);
        let resume = Resume::parse(&format!("resume={}&seq={}", hello.resume, hello.seq));
        assert_eq!(resume, Some(Resume { session: 0, seq: 0 }));
        assert!(world.attach(resume).recovered);
        assert!(!world.attach(Some(Resume { session: 0, seq: 1 })).recovered, "that seq was never sent");
        for bad in ["", "resume=s_0.secret", "resume=s_0&seq=1", "resume=s_0.secret&seq=x", "seq=1"] {
            assert_eq!(Resume::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_full_channel_takes_no_more() {
        let world = World::new(Fault::None);
        for offset in 1..=MAX_MESSAGES {
            assert_eq!(world.publish("news", "1"), Some(offset));
        }
        assert_eq!(world.publish("news", "1"), None);
        assert_eq!(world.publish("other", "1"), Some(1));
    }
}
