//! Digests of the secrets of restored sessions. The secrets themselves are unknown until the clients
//! reconnect.

use std::collections::HashMap;

use encke_base::locks::Mutex;

use super::cell::SessionCell;
use crate::session::id::{ResumeSecret, SecretDigest, SessionId};

/// Digests by session. An entry is removed when its client reconnects, or when the session ends.
#[derive(Default)]
pub(crate) struct RestoredCredentials(Mutex<HashMap<SessionId, SecretDigest>>);

impl RestoredCredentials {
    pub(crate) fn add(&self, id: SessionId, digest: SecretDigest) {
        self.0.lock().insert(id, digest);
    }

    /// Returns the digest of a session's secret.
    pub(crate) fn digest_of(&self, session: &SessionCell) -> Option<SecretDigest> {
        // Look in this order, because a secret is set before its entry is removed.
        self.get(session.id()).or_else(|| session.secret().as_ref().map(ResumeSecret::digest))
    }

    /// Returns the digest, if the client has not presented the secret yet.
    fn get(&self, id: SessionId) -> Option<SecretDigest> {
        self.0.lock().get(&id).copied()
    }

    /// Checks a secret that was presented for a session. If it is correct, the session stores it.
    pub(crate) fn claim(&self, session: &SessionCell, offered: &ResumeSecret) -> bool {
        let Some(digest) = self.get(session.id()) else {
            // Another request has just presented the secret.
            return session.secret().is_some_and(|secret| secret.matches(offered));
        };
        let is_valid = digest.is_of(offered);
        if is_valid {
            // Set the secret before removing the entry, so that the secret or its digest is known at all
            // times.
            session.set_secret(*offered);
            self.0.lock().remove(&session.id());
        }
        is_valid
    }

    /// Removes the entry of a session that has ended.
    pub(crate) fn forget(&self, session: &SessionCell) {
        if session.secret().is_none() {
            self.0.lock().remove(&session.id());
        }
    }
}
