use std::sync::Arc;

use super::{Permission, Permissions};
use crate::clock::UnixTime;

/// Who a client is, and what it may do. As small as a pointer, for every session has one.
#[derive(Clone, Debug, Default)]
pub struct Identity(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    user: Arc<str>,
    expires: Option<UnixTime>,
    permissions: Permissions,
}

impl Identity {
    /// Anyone, where no token is needed: it may do everything.
    pub const ANONYMOUS: Self = Self(None);

    pub(super) fn new(user: Arc<str>, expires: Option<UnixTime>, permissions: Permissions) -> Self {
        Self(Some(Arc::new(Known { user, expires, permissions })))
    }

    /// The token's `sub`; `None` for anyone.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.as_ref().map(|known| &*known.user)
    }

    /// The same, for longer than the identity.
    pub(crate) fn shared_user(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|known| Arc::clone(&known.user))
    }

    /// When the token expires, if it does.
    #[must_use]
    pub fn expires(&self) -> Option<UnixTime> {
        self.0.as_ref()?.expires
    }

    /// Whether it may do this on `channel`.
    #[must_use]
    pub fn allows(&self, permission: Permission, channel: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.permissions.allows(permission, channel))
    }

    /// Whether both are the same user: what a session may be taken up by, and a token be replaced by.
    #[must_use]
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.user() == other.user()
    }
}
