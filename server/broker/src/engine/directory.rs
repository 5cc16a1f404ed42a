//! The directory of sessions that several servers share. `encke_core::ownership` describes the protocol.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use encke_core::ownership::{Operation, Outcome, Term};
use futures_util::future::BoxFuture;

/// Id of a session.
pub type SessionKey = [u8; 16];

/// SHA-256 of a session's secret.
pub type SecretHash = [u8; 32];

/// How long a server's lease lasts after its last renewal.
pub const LEASE: Duration = Duration::from_secs(10);

/// Directory of the sessions of all servers.
///
/// A server sends requests to it only while its own lease is valid, except for renewals of the lease.
pub trait SessionDirectory: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of this server, which is new for each process.
    fn server(&self) -> &str;

    /// Returns the generation of the directory's data set; `None` while the directory cannot be reached.
    fn generation(&self) -> Option<u64>;

    /// Sends requests, which are executed in order. The replies have the same order; `None` if there was no reply
    /// within [`GRANT_TIMEOUT`](encke_core::ownership::GRANT_TIMEOUT), so that the outcome is unknown.
    fn execute(&self, requests: &[DirectoryRequest]) -> BoxFuture<'static, Vec<Option<DirectoryReply>>>;

    /// Renews this server's lease. `None` if there was no reply in time.
    fn renew_lease(&self) -> BoxFuture<'static, Option<LeaseRenewal>>;

    /// Gives up this server's lease, so that the others adopt its sessions at once.
    fn end_lease(&self) -> BoxFuture<'static, ()>;

    /// Returns some sessions that a server owns (`None`: sessions without an owner), and the cursor of the next page,
    /// or 0 after the last page. The first page has the cursor 0. A session may be on several pages. `None` if there
    /// was no reply in time.
    fn sessions_of(
        &self,
        server: Option<&str>,
        cursor: u64,
    ) -> BoxFuture<'static, Option<(Vec<SessionKey>, u64)>>;

    /// Sends a message to another server. It may be lost.
    fn send(&self, server: &str, message: ServerMessage);

    /// Sets the receiver of messages. Called once, before any request.
    fn set_listener(&self, listener: Weak<dyn DirectoryListener>);
}

/// Receives messages from other servers. Implementations do not block.
pub trait DirectoryListener: fmt::Debug + Send + Sync + 'static {
    /// Handles a message of the server `from`.
    fn receive(&self, from: &str, message: ServerMessage);

    /// Called when the directory can be reached again.
    fn connected(&self);
}

/// Message between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// Asks the owner of a session to release it.
    Release(SessionKey),
    /// The session has been released, or this server does not have it.
    Released(SessionKey),
    /// A request of a client, forwarded to the server of the client's session.
    Request {
        /// Number of the request, which the reply repeats.
        number: u64,
        /// Content.
        payload: Vec<u8>,
    },
    /// Reply to a [`Self::Request`].
    Reply {
        /// Number of the request.
        number: u64,
        /// Content.
        payload: Vec<u8>,
    },
}

/// Request to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryRequest {
    /// Operation of a session's owner.
    Operate {
        /// Session.
        session: SessionKey,
        /// The owner's term.
        term: Term,
        /// Operation.
        operation: Operation,
        /// Data of the operation.
        write: RecordWrite,
    },
    /// Claim of a session for a client with this secret.
    Claim {
        /// Session.
        session: SessionKey,
        /// Hash of the client's secret.
        secret: SecretHash,
        /// User of the client.
        user: RecordUser,
        /// Owner from which the session is taken even if it has a client there, and the owner's term.
        from: Option<(String, Term)>,
    },
    /// Adoption of a session whose owner is dead or has released it.
    Adopt {
        /// Session.
        session: SessionKey,
        /// Whether this server itself is the owner, and does not have the session, because it has received no reply to
        /// a claim.
        is_own: bool,
    },
}

/// User of a session or of a client that claims one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordUser {
    /// The user's name; `None` if the client is anonymous.
    Known(Option<String>),
    /// Not known. A claim is not refused because of the user.
    Unknown,
}

impl RecordUser {
    /// A client without a user.
    pub const ANONYMOUS: Self = Self::Known(None);

    /// Creates the user with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::Known(Some(name.to_owned()))
    }
}

/// Data of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// Remaining time of the reconnect window.
    pub remaining: Duration,
    /// Hash of the session's secret.
    pub secret: SecretHash,
    /// User of the session. [`RecordUser::Unknown`]: as in the record.
    pub user: RecordUser,
    /// State from which another server can continue the session. For an end, the close code as decimal text.
    pub state: Vec<u8>,
}

/// Reply of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryReply {
    /// Outcome of an operation. It is never [`Outcome::Unknown`].
    Outcome(Outcome),
    /// A claim or an adoption was granted.
    Granted(GrantedSession),
    /// The claimed session has a client on this server, its owner in this term.
    OwnedBy(String, Term),
    /// The claimed session has ended with this close code; `None` if the code is not known.
    Ended(Option<u16>),
    /// The claimed session does not exist, the secret is wrong, or the session cannot be adopted.
    Refused,
    /// The claimed session is not in the directory, which may have lost it.
    Unsettled,
    /// The claimed session belongs to another user.
    OtherUser,
    /// The request had no effect, because this server does not know the current generation.
    OtherGeneration,
}

/// Session that was granted to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedSession {
    /// New term.
    pub term: Term,
    /// Version of the state.
    pub version: u64,
    /// Whether the record says that the session has a client on this server.
    pub is_attached: bool,
    /// Whether the record contains every write that was accepted.
    pub is_complete: bool,
    /// Remaining time of the reconnect window.
    pub remaining: Duration,
    /// Server that owned the session before, and may not know yet that it does not any more. `None` if there was none, or
    /// the request was repeated.
    pub former_owner: Option<String>,
    /// Hash of the session's secret.
    pub secret: SecretHash,
    /// State that the last owner has written.
    pub state: Vec<u8>,
}

/// Reply to the renewal of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRenewal {
    /// Generation of the directory's data set.
    pub generation: u64,
    /// Whether the directory still had the lease.
    pub was_held: bool,
    /// Servers that hold a lease, including this one.
    pub alive: Vec<String>,
    /// Servers without a lease that still own sessions.
    pub dead: Vec<String>,
    /// Number of sessions without an owner.
    pub unowned: u64,
    /// Number of this server's sessions.
    pub owned: u64,
}
