use std::sync::Arc;
use std::time::Duration;

use encke_timeouts::clock::UnixTime;
use minicbor::{Decode, Encode};

use super::{Permission, Permissions};

/// Identity and permissions of a client. It has the size of a pointer, because every session contains one.
#[derive(Clone, Debug, Default)]
pub struct Identity(Option<Arc<IdentityData>>);

#[derive(Debug)]
struct IdentityData {
    user: Arc<str>,
    issued: Option<UnixTime>,
    expires: Option<UnixTime>,
    permissions: Permissions,
    /// Channels that the client's sessions join when they begin.
    join: Box<[Box<str>]>,
}

/// [`Identity`] as stored in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IdentityRecord {
    #[n(0)]
    pub(crate) user: String,
    /// Wall-clock time.
    #[n(1)]
    expires_ms: Option<u64>,
    /// Rules: a channel's name or prefix, whether it is a prefix, and the permissions as bits.
    #[n(2)]
    rules: Vec<(String, bool, u8)>,
    /// Wall-clock time.
    #[n(3)]
    issued_ms: Option<u64>,
    #[cbor(n(4), default)]
    join: Vec<String>,
}

impl Identity {
    /// Identity of an anonymous client, which has all permissions. Used where no token is needed.
    pub const ANONYMOUS: Self = Self(None);

    pub(super) fn new(
        user: Arc<str>,
        issued: Option<UnixTime>,
        expires: Option<UnixTime>,
        permissions: Permissions,
        join: Box<[Box<str>]>,
    ) -> Self {
        Self(Some(Arc::new(IdentityData { user, issued, expires, permissions, join })))
    }

    /// The token's `sub`, or `None` for an anonymous client.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.as_ref().map(|known| &*known.user)
    }

    /// [`user`](Self::user) as a shared string.
    pub(crate) fn shared_user(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|known| Arc::clone(&known.user))
    }

    /// Channels that the client's sessions join when they begin.
    pub(crate) fn joins(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|known| &known.join).map(|name| &**name)
    }

    /// The token's `iat`, if present.
    pub(crate) fn issued(&self) -> Option<UnixTime> {
        self.0.as_ref()?.issued
    }

    /// When the token expires, if it has an `exp`.
    #[must_use]
    pub fn expires(&self) -> Option<UnixTime> {
        self.0.as_ref()?.expires
    }

    /// Creates the record for a snapshot, or `None` for an anonymous client.
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

    /// Reverse of [`Self::record`].
    pub(crate) fn restore(record: Option<IdentityRecord>) -> Self {
        record.map_or(Self::ANONYMOUS, |IdentityRecord { user, expires_ms, rules, issued_ms, join }| {
            let time = |millis| UnixTime::since_epoch(Duration::from_millis(millis));
            let (issued, expires) = (issued_ms.map(time), expires_ms.map(time));
            Self::new(
                user.into(),
                issued,
                expires,
                Permissions::from_rules(rules),
                join.into_iter().map(Into::into).collect(),
            )
        })
    }

    /// Whether the client has this permission on `channel`.
    #[must_use]
    pub fn allows(&self, permission: Permission, channel: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.permissions.allows(permission, channel))
    }

    /// Whether both identities belong to the same user. Required to resume a session and to replace its
    /// token.
    #[must_use]
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.user() == other.user()
    }
}
