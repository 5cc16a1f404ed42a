//! Snapshot records of sessions: the record of the state machine, and the other data that the server has. The
//! rules for the records of `encke_core` apply to these, too.

use encke_broker::channel::ChannelName;
use encke_core::dialect::DialectName;
use encke_core::session::{BadRecord, SessionRecord};
use minicbor::{Decode, Encode};

use super::rare_state::Rename;
use crate::auth::IdentityRecord;
use crate::session::id::SessionId;
use crate::session::transport::Transport;

/// Why a record was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRestored {
    #[error("a session with {0}")]
    BadRecord(#[from] BadRecord),
    #[error("invalid record: {0}")]
    Contradiction(&'static str),
    #[error("the limit of sessions is reached (limits.max_sessions)")]
    TooManySessions,
}

/// Record of a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredSession {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub(crate) id: [u8; 16],
    /// SHA-256 of the secret, which only the client has.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub(crate) secret_digest: [u8; 32],
    #[n(2)]
    pub(crate) machine: SessionRecord,
    #[n(3)]
    pub(crate) transport: u8,
    #[n(4)]
    pub(crate) dialect: u8,
    /// Whether the client received the full polling advice.
    #[n(5)]
    pub(crate) advised_all: bool,
    /// Whether the client was advised to pause between polls.
    #[n(6)]
    pub(crate) advised_pause: bool,
    /// Identity of the client; `None` if it is anonymous.
    #[n(7)]
    pub(crate) identity: Option<IdentityRecord>,
    /// Quota owner that the session counts against.
    #[n(8)]
    pub(crate) owner: String,
    /// Channels that the backend replaced.
    #[cbor(n(9), default)]
    pub(crate) renames: Vec<StoredRename>,
    /// Channels whose presence does not list the session, because its join was not announced.
    #[cbor(n(10), default)]
    pub(crate) unlisted: Vec<String>,
    /// Whether the session keeps its user online.
    #[cbor(n(11), default)]
    pub(crate) is_online: bool,
}

/// Record with which another server continues a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct MovedSession {
    #[n(0)]
    pub(crate) session: StoredSession,
    /// The logs that the session refers to.
    #[n(1)]
    pub(crate) logs: Vec<MovedLog>,
    /// Whether the client may have received messages that are not in the record.
    #[n(2)]
    pub(crate) is_outdated: bool,
    /// Whether the session has a connection, or its client has connected to the next server.
    #[n(3)]
    pub(crate) is_attached: bool,
}

/// A log that a [`MovedSession`] refers to.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(crate) struct MovedLog {
    /// Number of the log on the server that has written the record.
    #[n(0)]
    pub(crate) number: u64,
    /// Name of the channel or pattern.
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) epoch: String,
}

/// Record of a [`Rename`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredRename {
    #[n(0)]
    requested: String,
    #[n(1)]
    actual: String,
}

impl From<&Rename> for StoredRename {
    fn from(Rename { requested, actual }: &Rename) -> Self {
        Self { requested: requested.as_str().to_owned(), actual: actual.as_str().to_owned() }
    }
}

impl StoredRename {
    /// Converts the record back. `None` if a name is invalid.
    pub(crate) fn rename(&self) -> Option<Rename> {
        let name = |text: &str| ChannelName::new(text, usize::MAX).ok();
        Some(Rename { requested: name(&self.requested)?, actual: name(&self.actual)? })
    }
}

/// Record of a session that ended before its client could be notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredEnd {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub(crate) id: [u8; 16],
    /// SHA-256 of the secret.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub(crate) secret_digest: [u8; 32],
    #[n(2)]
    pub(crate) code: u16,
}

impl StoredEnd {
    pub(crate) fn id(&self) -> SessionId {
        SessionId::from_bytes(self.id)
    }
}

/// Record of a join or leave notice that was not published.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredNotice {
    #[n(0)]
    pub(crate) channel: String,
    #[n(1)]
    pub(crate) has_left: bool,
    #[cbor(n(2), with = "minicbor::bytes")]
    pub(crate) session: [u8; 16],
    #[n(3)]
    pub(crate) user: Option<String>,
}

impl StoredNotice {
    pub(crate) fn session(&self) -> SessionId {
        SessionId::from_bytes(self.session)
    }
}

/// Transports, indexed by their numbers in records.
pub(crate) const TRANSPORTS: [Transport; 3] = [Transport::WebSocket, Transport::Events, Transport::Poll];

/// Dialects, indexed by their numbers in records.
pub(crate) const DIALECTS: [DialectName; 2] = [DialectName::Json, DialectName::Bayeux];

/// Returns the index of a value in [`TRANSPORTS`] or [`DIALECTS`].
pub(crate) fn index_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let number = all.iter().position(|other| other == one);
    number.and_then(|number| u8::try_from(number).ok()).expect("every value is in the table")
}

/// Returns the value at an index of [`TRANSPORTS`] or [`DIALECTS`].
pub(crate) fn value_at<T: Copy>(all: &[T], number: u8) -> Option<T> {
    all.get(usize::from(number)).copied()
}

impl StoredSession {
    pub(crate) fn id(&self) -> SessionId {
        SessionId::from_bytes(self.id)
    }

    /// Returns the name of the session's user; `None` if the client is anonymous.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.as_ref()?.user.as_deref()
    }

    pub(crate) fn transport_name(&self) -> &'static str {
        value_at(&TRANSPORTS, self.transport).map_or("unknown", <&str>::from)
    }

    pub(crate) fn dialect_name(&self) -> &'static str {
        value_at(&DIALECTS, self.dialect).map_or("unknown", <&str>::from)
    }
}
