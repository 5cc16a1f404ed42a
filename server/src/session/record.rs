//! A session as it is written down, with what the server knows of it besides its machine. See `encke_core`'s records: the same rules
//! hold.

use encke_core::dialect::DialectName;
use encke_core::session::SessionRecord;
use minicbor::{Decode, Encode};

use super::SessionId;
use super::cell::Transport;
use crate::auth::IdentityRecord;

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredSession {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub(super) id: [u8; 16],
    /// SHA-256. The secret is with the client.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub(super) secret_digest: [u8; 32],
    #[n(2)]
    pub(crate) machine: SessionRecord,
    #[n(3)]
    pub(super) transport: u8,
    #[n(4)]
    pub(super) dialect: u8,
    /// The client was told all of how to poll.
    #[n(5)]
    pub(super) advised_all: bool,
    /// The client was told to pause.
    #[n(6)]
    pub(super) advised_pause: bool,
    /// Nothing for anyone.
    #[n(7)]
    pub(super) identity: Option<IdentityRecord>,
    /// Whom it counts for.
    #[n(8)]
    pub(super) holder: String,
}

/// The end of a session that its client was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredEnd {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub(super) id: [u8; 16],
    /// SHA-256.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub(super) secret_digest: [u8; 32],
    /// The close code.
    #[n(2)]
    pub(crate) code: u16,
}

impl StoredEnd {
    pub(crate) fn id(&self) -> SessionId {
        SessionId::of_bytes(self.id)
    }
}

/// A session that has come to a channel, or gone, of which its followers were not told.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredTelling {
    #[n(0)]
    pub(crate) channel: String,
    #[n(1)]
    pub(crate) has_left: bool,
    #[cbor(n(2), with = "minicbor::bytes")]
    pub(super) session: [u8; 16],
    #[n(3)]
    pub(super) user: Option<String>,
}

impl StoredTelling {
    pub(crate) fn session(&self) -> SessionId {
        SessionId::of_bytes(self.session)
    }
}

/// Transports by their numbers in records.
pub(super) const TRANSPORTS: [Transport; 3] = [Transport::WebSocket, Transport::Events, Transport::Poll];

/// Dialects by their numbers in records.
pub(super) const DIALECTS: [DialectName; 2] = [DialectName::Json, DialectName::Bayeux];

/// The number of one of these.
pub(super) fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let number = all.iter().position(|other| other == one);
    number.and_then(|number| u8::try_from(number).ok()).expect("each has a number")
}

/// The one with this number.
pub(super) fn numbered<T: Copy>(all: &[T], number: u8) -> Option<T> {
    all.get(usize::from(number)).copied()
}

impl StoredSession {
    pub(crate) fn id(&self) -> SessionId {
        SessionId::of_bytes(self.id)
    }

    /// Its user, if it has one by name.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| &*identity.user)
    }

    pub(crate) fn transport_name(&self) -> &'static str {
        numbered(&TRANSPORTS, self.transport).map_or("unknown", <&str>::from)
    }

    pub(crate) fn dialect_name(&self) -> &'static str {
        numbered(&DIALECTS, self.dialect).map_or("unknown", <&str>::from)
    }
}
