//! Sessions of an earlier process whose clients have not come back yet: of their secrets, only the digests are known.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::SessionId;
use super::cell::SessionCell;
use super::id::{Secret, SecretDigest};

/// By session. Each is here until its client comes, or until it ends.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Mutex<HashMap<SessionId, SecretDigest>>);

impl Unclaimed {
    pub(super) fn add(&self, id: SessionId, digest: SecretDigest) {
        self.0.lock().insert(id, digest);
    }

    /// The digest of a session's secret.
    pub(super) fn digest_of(&self, session: &SessionCell) -> Option<SecretDigest> {
        // In this order: a secret is set before it is forgotten here.
        self.get(session.id()).or_else(|| session.secret().as_ref().map(Secret::digest))
    }

    /// The same, if nobody has come with the secret yet.
    fn get(&self, id: SessionId) -> Option<SecretDigest> {
        self.0.lock().get(&id).copied()
    }

    /// Somebody comes with a secret. If it is the session's, that knows it from here on.
    pub(super) fn claim(&self, session: &SessionCell, offered: &Secret) -> bool {
        let Some(digest) = self.get(session.id()) else {
            // Another request was faster.
            return session.secret().is_some_and(|secret| secret.matches(offered));
        };
        let is_right = digest.is_of(offered);
        if is_right {
            // Set before it is forgotten here, so that one of the two is always known.
            session.set_secret(*offered);
            self.0.lock().remove(&session.id());
        }
        is_right
    }

    /// The session has ended.
    pub(super) fn forget(&self, session: &SessionCell) {
        if session.secret().is_none() {
            self.0.lock().remove(&session.id());
        }
    }
}
