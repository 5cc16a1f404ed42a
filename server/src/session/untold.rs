//! Why sessions have ended that had no connection to be told on, where their clients are not to come back by themselves.

use std::collections::VecDeque;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::session::Phase;
use parking_lot::Mutex;

use super::SessionId;
use super::id::{ResumeToken, SecretDigest};
use super::record::StoredEnd;

/// How many ends are remembered. Whoever comes back after so many others hears of an unknown session.
const REMEMBERED: usize = 1024;

/// The last ends that nobody was told, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Untold(Mutex<VecDeque<End>>);

/// The end of a session. Of a secret, the digest may be all that was ever known here.
#[derive(Clone, Copy, Debug)]
struct End {
    session: SessionId,
    secret: SecretDigest,
    code: CloseCode,
}

impl End {
    fn is_of(&self, token: &ResumeToken) -> bool {
        self.session == token.id && self.secret.is_of(&token.secret)
    }
}

impl Untold {
    /// A session has ended without a connection that says so. `before` was its phase; `secret` is asked for only if that matters.
    pub(super) fn ended(
        &self,
        session: SessionId,
        secret: impl FnOnce() -> Option<SecretDigest>,
        before: Phase,
        reason: CloseReason,
    ) {
        let code = reason.close_code();
        // A suspended session that has reached a limit has made room for another: that is no fault of its client.
        let made_room = before == Phase::Suspended && reason == CloseReason::Limit;
        if code == CloseCode::Normal || code.invites_back() || made_room {
            return;
        }
        let Some(secret) = secret() else { return };
        self.add(End { session, secret, code });
    }

    /// What clients bring upon themselves, one of them could do a thousand times: that is forgotten before a kick is.
    fn add(&self, end: End) {
        let mut ends = self.0.lock();
        if ends.len() == REMEMBERED {
            let own_fault = ends.iter().position(|end| end.code != CloseCode::Kicked);
            match (own_fault, end.code) {
                (Some(oldest), _) => drop(ends.remove(oldest)),
                (None, CloseCode::Kicked) => drop(ends.pop_front()),
                (None, _) => return,
            }
        }
        ends.push_back(end);
    }

    /// Writes down what is remembered, the oldest first.
    pub(super) fn snapshot(&self) -> Vec<StoredEnd> {
        let stored = |end: &End| StoredEnd {
            id: end.session.bytes(),
            secret_digest: end.secret.0,
            code: end.code.code(),
        };
        self.0.lock().iter().map(stored).collect()
    }

    /// Remembers what another process has. Returns whether a client is to be told of such an end.
    pub(super) fn restore(&self, stored: &StoredEnd) -> bool {
        let code = CloseCode::from_repr(stored.code);
        let Some(code) = code.filter(|code| *code != CloseCode::Normal && !code.invites_back()) else {
            return false;
        };
        let secret = SecretDigest(stored.secret_digest);
        self.add(End { session: stored.id(), secret, code });
        true
    }

    /// Why the session of this token has ended, if its client was not told.
    pub(super) fn get(&self, token: &ResumeToken) -> Option<CloseCode> {
        self.0.lock().iter().rfind(|end| end.is_of(token)).map(|end| end.code)
    }

    /// The same. From here on, its client is told.
    pub(super) fn take(&self, token: &ResumeToken) -> Option<CloseCode> {
        let mut ends = self.0.lock();
        let at = ends.iter().rposition(|end| end.is_of(token))?;
        ends.remove(at).map(|end| end.code)
    }
}

#[cfg(test)]
mod tests {
    use encke_core::session::ConnectionId;

    use super::super::id::Secret;
    use super::*;
    use crate::entropy::Entropy;

    fn token() -> ResumeToken {
        let entropy = Entropy::system();
        ResumeToken { id: SessionId::random(&entropy), secret: Secret::random(&entropy) }
    }

    impl Untold {
        fn told_later(&self, token: ResumeToken, before: Phase, reason: CloseReason) {
            self.ended(token.id, || Some(token.secret.digest()), before, reason);
        }
    }

    #[test]
    fn an_end_is_told_once_and_to_nobody_else() {
        let (untold, token) = (Untold::default(), token());
        untold.told_later(token, Phase::BetweenPolls, CloseReason::Kicked);
        let guessed = ResumeToken { secret: Secret::random(&Entropy::system()), ..token };
        assert_eq!((untold.get(&guessed), untold.take(&guessed)), (None, None));
        assert_eq!(untold.get(&token), Some(CloseCode::Kicked));
        assert_eq!(untold.take(&token), Some(CloseCode::Kicked));
        assert_eq!((untold.get(&token), untold.take(&token)), (None, None));
    }

    #[test]
    fn a_client_that_may_come_back_need_not_be_told() {
        let attached = Phase::Attached(ConnectionId(1));
        for (before, reason, told) in [
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
            let (untold, token) = (Untold::default(), token());
            untold.told_later(token, before, reason);
            assert_eq!(untold.get(&token), told, "{before:?}, {reason:?}");
        }
    }

    /// One client can open sessions and break their rules, as often as it likes.
    #[test]
    fn a_kick_is_forgotten_last() {
        let (untold, kicked, fault) = (Untold::default(), token(), token());
        untold.told_later(kicked, Phase::BetweenPolls, CloseReason::Kicked);
        for _ in 0..REMEMBERED {
            untold.told_later(token(), Phase::BetweenPolls, CloseReason::Limit);
        }
        assert_eq!(untold.get(&kicked), Some(CloseCode::Kicked));
        for _ in 1..REMEMBERED {
            untold.told_later(token(), Phase::Suspended, CloseReason::Kicked);
        }
        untold.told_later(fault, Phase::BetweenPolls, CloseReason::Limit);
        assert_eq!((untold.get(&kicked), untold.get(&fault)), (Some(CloseCode::Kicked), None));
        untold.told_later(fault, Phase::BetweenPolls, CloseReason::Kicked);
        assert_eq!((untold.get(&kicked), untold.get(&fault)), (None, Some(CloseCode::Kicked)));
        assert_eq!(untold.0.lock().len(), REMEMBERED);
    }

    #[test]
    fn another_process_remembers_the_same() {
        let (before, after, token) = (Untold::default(), Untold::default(), token());
        before.told_later(token, Phase::BetweenPolls, CloseReason::Kicked);
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
    fn the_oldest_is_forgotten() {
        let (untold, first, second) = (Untold::default(), token(), token());
        untold.told_later(first, Phase::BetweenPolls, CloseReason::Kicked);
        untold.told_later(second, Phase::BetweenPolls, CloseReason::Kicked);
        for _ in 2..=REMEMBERED {
            untold.told_later(token(), Phase::BetweenPolls, CloseReason::Kicked);
        }
        assert_eq!(untold.0.lock().len(), REMEMBERED);
        assert_eq!(untold.get(&first), None);
        assert_eq!(untold.get(&second), Some(CloseCode::Kicked));
    }
}
