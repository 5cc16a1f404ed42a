//! Users whose earlier tokens are rejected.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_timeouts::clock::UnixTime;
use minicbor::{Decode, Encode};

use super::{AuthError, Identity};

/// Maximum number of revoked users. Forgetting a user would make its tokens valid again, so additional
/// revocations are rejected.
pub(crate) const MAX_REVOKED_USERS: usize = 65_536;

/// Time of each user's revocation according to the wall clock, since `iat` is a wall-clock time as well.
///
/// The lock is held only for a single look-up.
#[derive(Debug)]
pub(crate) struct Revocations {
    revoked: Mutex<HashMap<Arc<str>, UnixTime>>,
    /// Longest token lifetime (`auth.max_token_lifetime`), after which a revocation can be forgotten. `None`:
    /// unlimited.
    retention: Option<Duration>,
}

/// A revoked user, as stored in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RevocationRecord {
    #[n(0)]
    pub(crate) user: String,
    /// Wall-clock time.
    #[n(1)]
    at_ms: u64,
}

/// The maximum number of revoked users is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MAX_REVOKED_USERS} users are revoked already, which is the maximum; a revocation ends after auth.max_token_lifetime"
)]
pub(crate) struct TooManyRevoked;

impl Revocations {
    pub(crate) fn new(remembered: Option<Duration>) -> Self {
        Self { revoked: Mutex::default(), retention: remembered }
    }

    /// Rejects all of the user's tokens issued so far.
    ///
    /// # Errors
    /// [`TooManyRevoked`], in which case nothing changes.
    pub(crate) fn revoke(&self, user: &str, now: UnixTime) -> Result<(), TooManyRevoked> {
        let mut revoked = self.revoked.lock();
        if let Some(at) = revoked.get_mut(user) {
            // Keep the later time: the wall clock may have been set back.
            *at = now.max(*at);
            return Ok(());
        }
        if revoked.len() >= MAX_REVOKED_USERS {
            revoked.retain(|_, at| !self.is_expired(*at, now));
        }
        if revoked.len() >= MAX_REVOKED_USERS {
            return Err(TooManyRevoked);
        }
        revoked.insert(user.into(), now);
        Ok(())
    }

    /// Checks whether a client's token is still valid.
    ///
    /// # Errors
    /// [`AuthError`] if the user was revoked and the token is older than the revocation or has no `iat`.
    pub(crate) fn check(&self, identity: &Identity, now: UnixTime) -> Result<(), AuthError> {
        let Some(user) = identity.user() else { return Ok(()) };
        let at = self.revoked.lock().get(user).copied().filter(|at| !self.is_expired(*at, now));
        match (at, identity.issued()) {
            (None, _) => Ok(()),
            (Some(at), Some(issued)) if issued > at => Ok(()),
            (Some(_), Some(_)) => Err(AuthError::Revoked),
            (Some(_), None) => {
                let problem = "is missing, but required because tokens of the user were revoked";
                Err(AuthError::BadClaim { claim: "iat", problem })
            }
        }
    }

    fn is_expired(&self, at: UnixTime, now: UnixTime) -> bool {
        self.retention.is_some_and(|remembered| now.since(at) > remembered)
    }

    /// Returns the records for a snapshot.
    pub(crate) fn records(&self) -> Vec<RevocationRecord> {
        let revoked = self.revoked.lock();
        let record = |(user, at): (&Arc<str>, &UnixTime)| RevocationRecord {
            user: user.to_string(),
            at_ms: at.as_millis(),
        };
        revoked.iter().map(record).collect()
    }

    /// Restores a revocation from a snapshot.
    ///
    /// # Errors
    /// [`TooManyRevoked`], in which case nothing changes.
    pub(crate) fn restore(&self, record: &RevocationRecord) -> Result<(), TooManyRevoked> {
        self.revoke(&record.user, UnixTime::since_epoch(Duration::from_millis(record.at_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Permissions;
    use crate::auth::claims::Claims;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(secs: u64) -> UnixTime {
        UnixTime::from_secs(secs)
    }

    fn token(user: &str, issued: Option<u64>) -> Identity {
        let (iat, permissions) = (issued.map(at), Permissions::default());
        Claims {
            sub: Some(user.into()),
            iat,
            exp: None,
            permissions,
            join: Box::default(),
            credentials: None,
        }
        .into()
    }

    #[test]
    fn earlier_tokens_are_rejected() {
        let revocations = Revocations::new(None);
        revocations.revoke("eve", at(1_000)).expect("below the maximum");
        let missing = "is missing, but required because tokens of the user were revoked";
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
        revocations.revoke("eve", at(500)).expect("already revoked");
        assert_eq!(revocations.check(&token("eve", Some(999)), at(501)), Err(AuthError::Revoked));
    }

    #[test]
    fn a_revocation_ends_when_all_earlier_tokens_have_expired() {
        let revocations = Revocations::new(Some(HOUR));
        revocations.revoke("eve", at(1_000)).expect("below the maximum");
        assert_eq!(revocations.check(&token("eve", Some(999)), at(4_600)), Err(AuthError::Revoked));
        assert_eq!(revocations.check(&token("eve", Some(999)), at(4_601)), Ok(()));
    }

    #[test]
    fn no_revocation_is_forgotten_when_the_maximum_is_reached() {
        let revocations = Revocations::new(Some(HOUR));
        for number in 0..MAX_REVOKED_USERS {
            revocations.revoke(&number.to_string(), at(1_000)).expect("below the maximum");
        }
        assert_eq!(revocations.revoke("eve", at(4_600)), Err(TooManyRevoked));
        assert_eq!(revocations.revoke("0", at(4_600)), Ok(()), "already revoked");
        assert_eq!(revocations.check(&token("0", Some(4_599)), at(4_600)), Err(AuthError::Revoked));
        assert_eq!(revocations.revoke("eve", at(4_601)), Ok(()), "the other revocations have expired");
        assert_eq!(revocations.records().len(), 2);
    }

    #[test]
    fn revocations_round_trip_through_records() {
        let (before, after) = (Revocations::new(None), Revocations::new(None));
        before.revoke("eve", at(1_000)).expect("below the maximum");
        assert!(before.records().iter().all(|record| after.restore(record).is_ok()));
        assert_eq!(after.records(), before.records());
        assert_eq!(after.check(&token("eve", Some(999)), at(2_000)), Err(AuthError::Revoked));
    }
}
