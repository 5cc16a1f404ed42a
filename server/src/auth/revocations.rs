//! Users whose tokens of before are refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use minicbor::{Decode, Encode};
use parking_lot::Mutex;

use super::{AuthError, Identity};
use crate::clock::UnixTime;

/// How many users are remembered. To forget one would let its tokens in again, so one more is refused.
pub(crate) const MOST_REVOKED: usize = 65_536;

/// When each of them was revoked, by the wall clock: `iat` is a time by that, too.
///
/// Locked for one look-up.
#[derive(Debug)]
pub(crate) struct Revocations {
    revoked: Mutex<HashMap<Arc<str>, UnixTime>>,
    /// After so long, no token of before is good by itself (`auth.longest_token`). Nothing: some are good for ever.
    remembered: Option<Duration>,
}

/// A user that was revoked, as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RevocationRecord {
    #[n(0)]
    pub(crate) user: String,
    /// By the wall clock.
    #[n(1)]
    at_ms: u64,
}

/// As many users are revoked as can be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_REVOKED} users are revoked already, and none can be forgotten yet (auth.longest_token)")]
pub(crate) struct TooManyRevoked;

impl Revocations {
    pub(crate) fn new(remembered: Option<Duration>) -> Self {
        Self { revoked: Mutex::default(), remembered }
    }

    /// Refuses the user's tokens that were issued before now.
    ///
    /// # Errors
    /// [`TooManyRevoked`], and nothing changes.
    pub(crate) fn revoke(&self, user: &str, now: UnixTime) -> Result<(), TooManyRevoked> {
        let mut revoked = self.revoked.lock();
        if let Some(at) = revoked.get_mut(user) {
            // The wall clock may have been set back.
            *at = now.max(*at);
            return Ok(());
        }
        if revoked.len() >= MOST_REVOKED {
            revoked.retain(|_, at| !self.is_forgotten(*at, now));
        }
        if revoked.len() >= MOST_REVOKED {
            return Err(TooManyRevoked);
        }
        revoked.insert(user.into(), now);
        Ok(())
    }

    /// Whether a client may still come with its token.
    ///
    /// # Errors
    /// The user was revoked, and the token is of before or does not say when it was issued.
    pub(crate) fn check(&self, identity: &Identity, now: UnixTime) -> Result<(), AuthError> {
        let Some(user) = identity.user() else { return Ok(()) };
        let at = self.revoked.lock().get(user).copied().filter(|at| !self.is_forgotten(*at, now));
        match (at, identity.issued()) {
            (None, _) => Ok(()),
            (Some(at), Some(issued)) if issued > at => Ok(()),
            (Some(_), Some(_)) => Err(AuthError::Revoked),
            (Some(_), None) => {
                let problem = "is missing, and tokens of its user were revoked";
                Err(AuthError::BadClaim { claim: "iat", problem })
            }
        }
    }

    fn is_forgotten(&self, at: UnixTime, now: UnixTime) -> bool {
        self.remembered.is_some_and(|remembered| now.since(at) > remembered)
    }

    /// Writes down what is remembered.
    pub(crate) fn records(&self) -> Vec<RevocationRecord> {
        let revoked = self.revoked.lock();
        let record = |(user, at): (&Arc<str>, &UnixTime)| RevocationRecord {
            user: user.to_string(),
            at_ms: at.as_millis(),
        };
        revoked.iter().map(record).collect()
    }

    /// Remembers what another process has.
    ///
    /// # Errors
    /// [`TooManyRevoked`], and nothing changes.
    pub(crate) fn restore(&self, record: &RevocationRecord) -> Result<(), TooManyRevoked> {
        self.revoke(&record.user, UnixTime::since_epoch(Duration::from_millis(record.at_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Permissions;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(secs: u64) -> UnixTime {
        UnixTime::from_secs(secs)
    }

    fn token(user: &str, issued: Option<u64>) -> Identity {
        Identity::new(user.into(), issued.map(at), None, Permissions::default(), Box::default())
    }

    #[test]
    fn tokens_of_before_are_refused() {
        let revocations = Revocations::new(None);
        revocations.revoke("eve", at(1_000)).expect("there is room");
        let missing = "is missing, and tokens of its user were revoked";
        let missing = Err(AuthError::BadClaim { claim: "iat", problem: missing });
        for (identity, now, expected) in [
            (token("eve", Some(999)), 1_001, Err(AuthError::Revoked)),
            (token("eve", Some(999)), 1_000_000_000, Err(AuthError::Revoked)),
            (token("eve", Some(1_000)), 1_001, Err(AuthError::Revoked)),
            (token("eve", Some(1_001)), 1_001, Ok(())),
            (token("eve", Some(2_000)), 1_001, Ok(())),
            (token("eve", None), 1_001, missing),
            (token("alice", None), 1_001, Ok(())),
            (Identity::ANONYMOUS, 1_001, Ok(())),
        ] {
            assert_eq!(revocations.check(&identity, at(now)), expected, "{identity:?} at {now}");
        }
        // The wall clock was set back.
        revocations.revoke("eve", at(500)).expect("it is known");
        assert_eq!(revocations.check(&token("eve", Some(999)), at(501)), Err(AuthError::Revoked));
    }

    #[test]
    fn a_user_is_forgotten_once_all_tokens_of_before_have_expired() {
        let revocations = Revocations::new(Some(HOUR));
        revocations.revoke("eve", at(1_000)).expect("there is room");
        assert_eq!(revocations.check(&token("eve", Some(999)), at(4_600)), Err(AuthError::Revoked));
        assert_eq!(revocations.check(&token("eve", Some(999)), at(4_601)), Ok(()));
    }

    #[test]
    fn where_there_is_no_room_nobody_is_forgotten() {
        let revocations = Revocations::new(Some(HOUR));
        for number in 0..MOST_REVOKED {
            revocations.revoke(&number.to_string(), at(1_000)).expect("there is room");
        }
        assert_eq!(revocations.revoke("eve", at(4_600)), Err(TooManyRevoked));
        assert_eq!(revocations.revoke("0", at(4_600)), Ok(()), "it is known");
        assert_eq!(revocations.check(&token("0", Some(4_599)), at(4_600)), Err(AuthError::Revoked));
        assert_eq!(revocations.revoke("eve", at(4_601)), Ok(()), "the others are forgotten");
        assert_eq!(revocations.records().len(), 2);
    }

    #[test]
    fn another_process_remembers_the_same() {
        let (before, after) = (Revocations::new(None), Revocations::new(None));
        before.revoke("eve", at(1_000)).expect("there is room");
        assert!(before.records().iter().all(|record| after.restore(record).is_ok()));
        assert_eq!(after.records(), before.records());
        assert_eq!(after.check(&token("eve", Some(999)), at(2_000)), Err(AuthError::Revoked));
    }
}
