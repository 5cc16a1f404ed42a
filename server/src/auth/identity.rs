use std::sync::Arc;
use std::time::Duration;

use minicbor::{Decode, Encode};

use super::{Permission, Permissions};
use crate::clock::UnixTime;

/// Who a client is, and what it may do. As small as a pointer, for every session has one.
#[derive(Clone, Debug, Default)]
pub struct Identity(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    user: Arc<str>,
    issued: Option<UnixTime>,
    expires: Option<UnixTime>,
    permissions: Permissions,
    /// Channels that its sessions join when they begin.
    join: Box<[Box<str>]>,
}

/// Who a client is, as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IdentityRecord {
    #[n(0)]
    pub(crate) user: String,
    /// By the wall clock.
    #[n(1)]
    expires_ms: Option<u64>,
    /// A channel's name or how it begins, whether it is that, and what is allowed.
    #[n(2)]
    rules: Vec<(String, bool, u8)>,
    /// By the wall clock.
    #[n(3)]
    issued_ms: Option<u64>,
    #[cbor(n(4), default)]
    join: Vec<String>,
}

impl Identity {
    /// Anyone, where no token is needed: it may do everything.
    pub const ANONYMOUS: Self = Self(None);

    pub(super) fn new(
        user: Arc<str>,
        issued: Option<UnixTime>,
        expires: Option<UnixTime>,
        permissions: Permissions,
        join: Box<[Box<str>]>,
    ) -> Self {
        Self(Some(Arc::new(Known { user, issued, expires, permissions, join })))
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

    /// The channels that its sessions join when they begin.
    pub(crate) fn joins(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|known| &known.join).map(|name| &**name)
    }

    /// When the token was issued, if it says so.
    pub(crate) fn issued(&self) -> Option<UnixTime> {
        self.0.as_ref()?.issued
    }

    /// When the token expires, if it does.
    #[must_use]
    pub fn expires(&self) -> Option<UnixTime> {
        self.0.as_ref()?.expires
    }

    /// As it is written down; nothing for anyone.
    pub(crate) fn record(&self) -> Option<IdentityRecord> {
        let known = self.0.as_ref()?;
        let rules = known.permissions.rules();
        Some(IdentityRecord {
            user: known.user.to_string(),
            expires_ms: known.expires.map(UnixTime::as_millis),
            rules: rules.map(|(name, prefix, allowed)| (name.to_owned(), prefix, allowed)).collect(),
            issued_ms: known.issued.map(UnixTime::as_millis),
            join: self.joins().map(ToOwned::to_owned).collect(),
        })
    }

    /// The reverse of [`Self::record`].
    pub(crate) fn restore(record: Option<IdentityRecord>) -> Self {
        record.map_or(Self::ANONYMOUS, |IdentityRecord { user, expires_ms, rules, issued_ms, join }| {
            let time = |millis| UnixTime::since_epoch(Duration::from_millis(millis));
            let (issued, expires) = (issued_ms.map(time), expires_ms.map(time));
            Self::new(
                user.into(),
                issued,
                expires,
                Permissions::of_rules(rules),
                join.into_iter().map(Into::into).collect(),
            )
        })
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
