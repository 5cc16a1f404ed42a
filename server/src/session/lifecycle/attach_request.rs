use std::net::IpAddr;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, DeliveryMode};

use crate::auth::Identity;
use crate::session::arrival::Arrival;
use crate::session::reported_positions::ReportedPositions;
use crate::session::table::{Mailbox, SessionHandle};
use crate::session::transport::Transport;

/// The session that a client asks for, and its connection.
#[derive(PartialEq, Eq)]
pub(crate) struct SessionRequest {
    /// Resume token from the client, not verified yet.
    pub(crate) resume: Option<String>,
    /// Seq of the last message that the client has received, if reported.
    pub(crate) seq: Option<u64>,
    pub(crate) positions: ReportedPositions,
    pub(crate) kind: ConnectionKind,
    pub(crate) dialect: DialectName,
    /// Messages that a client is assumed to have received if it sends no `seq`.
    pub(crate) delivery: DeliveryMode,
    /// Whether the request fails if the session cannot be resumed, instead of opening a new one.
    pub(crate) only_resume: bool,
    /// When the upgrade request of a Bayeux WebSocket arrived. Of two such sockets, the newer one gets the session, even if
    /// a message on the older one arrives later.
    pub(crate) upgraded: Option<Arrival>,
}

impl SessionRequest {
    /// Creates the request for a new session.
    pub(crate) fn new(kind: ConnectionKind, dialect: DialectName) -> Self {
        let delivery = DeliveryMode::AtLeastOnce;
        let positions = ReportedPositions::None;
        Self {
            resume: None,
            seq: None,
            positions,
            kind,
            dialect,
            delivery,
            only_resume: false,
            upgraded: None,
        }
    }
}

/// A request to attach a connection to a session.
pub(crate) struct AttachRequest {
    pub(crate) wanted: SessionRequest,
    pub(crate) identity: Identity,
    pub(crate) address: IpAddr,
    pub(crate) arrival: Arrival,
    /// Whether this server had the session. If it is no longer here, another server has taken it.
    pub(crate) has_session: bool,
    /// Whether the address is below its rate limit for new sessions.
    pub(crate) can_open: bool,
}

/// A connection that is attached to a session.
pub(crate) struct Attached {
    pub(crate) session: SessionHandle,
    /// Whether the session is the one that the client asked to resume.
    pub(crate) recovered: bool,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
    /// Channels that were unsubscribed because the client's new token no longer allows them.
    pub(crate) revoked: Vec<ChannelName>,
}

/// Why a connection was not given a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachRefusal {
    /// The limit on all connections, or on the connections of one address, is reached.
    TooManyConnections,
    /// The limit on sessions is reached.
    TooManySessions,
    /// The address opens new sessions too fast.
    TooManyNewSessions,
    /// The server is shutting down, and its sessions end.
    Draining,
    /// The server is shutting down, and its sessions continue in the next process; or another server has just taken the
    /// session.
    Moved,
    /// The session belongs to another user.
    WrongUser,
    /// The session no longer exists, and the request does not allow opening a new one.
    SessionGone,
    /// The session ended with this code while it had no connection, and its client has not been notified yet.
    Ended(CloseCode),
    /// The directory of sessions does not respond, or another server does not release the session.
    Unavailable,
    /// The connection has already ended, and its client is connected over a newer one.
    AlreadyReconnected,
}
