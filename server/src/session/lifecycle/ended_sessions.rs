//! Close codes of sessions that ended while they had no connection on which to send the code. They are kept
//! for clients that must not reconnect by themselves.

use std::collections::VecDeque;

use encke_base::locks::Mutex;
use encke_core::close::{CloseCode, CloseReason};
use encke_core::session::Phase;

use crate::session::id::{ResumeToken, SecretDigest, SessionId};
use crate::session::table::StoredEnd;

/// Maximum number of ended sessions that are kept. A client that reconnects after this many other sessions
/// have ended learns only that its session is unknown.
const CAPACITY: usize = 1024;

/// The sessions that ended most recently without notifying their clients, oldest first.
#[derive(Default)]
pub(super) struct EndedSessions(Mutex<VecDeque<EndedSession>>);

/// A session that has ended. Only the digest of its secret is kept; the secret itself may be unknown.
#[derive(Clone, Copy)]
struct EndedSession {
    session: SessionId,
    secret: SecretDigest,
    code: CloseCode,
}

impl EndedSession {
    fn is_of(&self, token: &ResumeToken) -> bool {
        self.session == token.id && self.secret.is_of(&token.secret)
    }
}

impl EndedSessions {
    /// Records the end of a session that has no connection on which to send the close code. `before` was its
    /// phase. `secret` is called only if the end is recorded.
    pub(super) fn record(
        &self,
        session: SessionId,
        secret: impl FnOnce() -> Option<SecretDigest>,
        before: Phase,
        reason: CloseReason,
    ) {
        let code = reason.close_code();
        // A suspended session that is closed with `Limit` was evicted to make room for another one; its
        // client is not at fault.
        let made_room = before == Phase::Suspended && reason == CloseReason::Limit;
        if code == CloseCode::Normal || code.allows_reconnect() || made_room {
            return;
        }
        let Some(secret) = secret() else { return };
        self.add(EndedSession { session, secret, code });
    }

    /// Adds an entry. If the list is full, kicks are removed last: all other ends are caused by clients
    /// themselves, and one client could cause a thousand of them.
    fn add(&self, end: EndedSession) {
        let mut ends = self.0.lock();
        if ends.len() == CAPACITY {
            let own_fault = ends.iter().position(|end| end.code != CloseCode::Kicked);
            match (own_fault, end.code) {
                (Some(oldest), _) => drop(ends.remove(oldest)),
                (None, CloseCode::Kicked) => drop(ends.pop_front()),
                (None, _) => return,
            }
        }
        ends.push_back(end);
    }

    /// Returns records of all entries, oldest first.
    pub(super) fn snapshot(&self) -> Vec<StoredEnd> {
        let stored = |end: &EndedSession| StoredEnd {
            id: end.session.bytes(),
            secret_digest: end.secret.0,
            code: end.code.code(),
        };
        self.0.lock().iter().map(stored).collect()
    }

    /// Restores an entry from a snapshot. Returns `false` if clients are never notified of such an end.
    pub(super) fn restore(&self, stored: &StoredEnd) -> bool {
        let code = CloseCode::from_repr(stored.code);
        let Some(code) = code.filter(|code| *code != CloseCode::Normal && !code.allows_reconnect()) else {
            return false;
        };
        let secret = SecretDigest(stored.secret_digest);
        self.add(EndedSession { session: stored.id(), secret, code });
        true
    }

    /// Returns the close code for a client that presents this token, if there is an entry.
    pub(super) fn get(&self, token: &ResumeToken) -> Option<CloseCode> {
        self.0.lock().iter().rfind(|end| end.is_of(token)).map(|end| end.code)
    }

    /// Like [`Self::get`], but also removes the entry, because the caller notifies the client.
    pub(super) fn take(&self, token: &ResumeToken) -> Option<CloseCode> {
        let mut ends = self.0.lock();
        let at = ends.iter().rposition(|end| end.is_of(token))?;
        ends.remove(at).map(|end| end.code)
    }
}

#[cfg(test)]
mod tests {
    use encke_base::entropy::Entropy;
    use encke_core::session::ConnectionId;

    use super::*;
    use crate::session::id::ResumeSecret;

    fn token() -> ResumeToken {
        let entropy = Entropy::system();
        ResumeToken { id: SessionId::random(&entropy), secret: ResumeSecret::random(&entropy) }
    }

    impl EndedSessions {
        fn record_end(&self, token: ResumeToken, before: Phase, reason: CloseReason) {
            self.record(token.id, || Some(token.secret.digest()), before, reason);
        }
    }

    #[test]
    fn end_is_reported_once_and_only_to_its_client() {
        let (ended, token) = (EndedSessions::default(), token());
        ended.record_end(token, Phase::BetweenPolls, CloseReason::Kicked);
        let guessed = ResumeToken { secret: ResumeSecret::random(&Entropy::system()), ..token };
        assert_eq!((ended.get(&guessed), ended.take(&guessed)), (None, None));
        assert_eq!(ended.get(&token), Some(CloseCode::Kicked));
        assert_eq!(ended.take(&token), Some(CloseCode::Kicked));
        assert_eq!((ended.get(&token), ended.take(&token)), (None, None));
    }

    #[test]
    fn only_ends_that_forbid_reconnecting_are_recorded() {
        let attached = Phase::Attached(ConnectionId(1));
        for (before, reason, expected) in [
            (Phase::BetweenPolls, CloseReason::ProtocolError, Some(CloseCode::ProtocolError)),
            (Phase::BetweenPolls, CloseReason::Limit, Some(CloseCode::Limit)),
            (attached, CloseReason::Kicked, Some(CloseCode::Kicked)),
            (Phase::Suspended, CloseReason::Kicked, Some(CloseCode::Kicked)),
            (Phase::Suspended, CloseReason::Limit, None),
            (Phase::Suspended, CloseReason::ReconnectWindow, None),
            (Phase::BetweenPolls, CloseReason::Client, None),
            (Phase::BetweenPolls, CloseReason::Draining, None),
            (Phase::BetweenPolls, CloseReason::Idle, None),
            (Phase::BetweenPolls, CloseReason::Lifetime, None),
        ] {
            let (ended, token) = (EndedSessions::default(), token());
            ended.record_end(token, before, reason);
            assert_eq!(ended.get(&token), expected, "{before:?}, {reason:?}");
        }
    }

    /// Kicks need this protection because one client can open sessions and violate limits as often as it
    /// likes.
    #[test]
    fn kicks_are_removed_last() {
        let (ended, kicked, fault) = (EndedSessions::default(), token(), token());
        ended.record_end(kicked, Phase::BetweenPolls, CloseReason::Kicked);
        for _ in 0..CAPACITY {
            ended.record_end(token(), Phase::BetweenPolls, CloseReason::Limit);
        }
        assert_eq!(ended.get(&kicked), Some(CloseCode::Kicked));
        for _ in 1..CAPACITY {
            ended.record_end(token(), Phase::Suspended, CloseReason::Kicked);
        }
        ended.record_end(fault, Phase::BetweenPolls, CloseReason::Limit);
        assert_eq!((ended.get(&kicked), ended.get(&fault)), (Some(CloseCode::Kicked), None));
        ended.record_end(fault, Phase::BetweenPolls, CloseReason::Kicked);
        assert_eq!((ended.get(&kicked), ended.get(&fault)), (None, Some(CloseCode::Kicked)));
        assert_eq!(ended.0.lock().len(), CAPACITY);
    }

    #[test]
    fn entries_survive_a_restart() {
        let (before, after, token) = (EndedSessions::default(), EndedSessions::default(), token());
        before.record_end(token, Phase::BetweenPolls, CloseReason::Kicked);
        let stored = before.snapshot();
        assert!(stored.iter().all(|end| after.restore(end)));
        assert_eq!(after.snapshot(), stored);
        assert_eq!(after.take(&token), Some(CloseCode::Kicked));
        for code in [0, CloseCode::Normal.code(), CloseCode::Draining.code(), u16::MAX] {
            assert!(!after.restore(&StoredEnd { code, ..stored[0] }), "{code}");
        }
        assert_eq!(after.snapshot(), []);
    }

    #[test]
    fn oldest_entry_is_removed() {
        let (ended, first, second) = (EndedSessions::default(), token(), token());
        ended.record_end(first, Phase::BetweenPolls, CloseReason::Kicked);
        ended.record_end(second, Phase::BetweenPolls, CloseReason::Kicked);
        for _ in 2..=CAPACITY {
            ended.record_end(token(), Phase::BetweenPolls, CloseReason::Kicked);
        }
        assert_eq!(ended.0.lock().len(), CAPACITY);
        assert_eq!(ended.get(&first), None);
        assert_eq!(ended.get(&second), Some(CloseCode::Kicked));
    }
}
