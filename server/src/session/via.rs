use std::net::IpAddr;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::{CloseCode, CloseReason};
use encke_core::session::{ConnectionId, ConnectionInput, Input, Phase, Request};

use super::cell::{SessionCell, SessionState};
use super::link::{Link, Notes};
use super::sessions::Sessions;
use crate::admission::Holder;
use crate::channel::Publisher;

/// By which way a client speaks to its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via {
    /// Its connection; or none, for a request with the session's secret, which may come at any time.
    connection: Option<ConnectionId>,
    address: IpAddr,
}

/// What a client says that the session's machine needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A command, good or bad.
    Command,
    /// It has everything up to this seq.
    Ack { seq: u64 },
    /// The answer to a ping, by a message.
    Pong { seq: u64 },
    /// It has a new token, which expires then, or never.
    TokenRefreshed(Option<Timestamp>),
    /// It asks to be answered when there is something new, or after so long. What it has, it may say.
    Hold { hold: Duration, seq: Option<u64> },
    /// The session is to end.
    Close(CloseReason),
}

impl Via {
    /// Over this connection.
    pub(crate) fn connection(link: &Link) -> Self {
        Self { connection: Some(link.id), address: link.address() }
    }

    /// By a request beside the session's connection, if it has one.
    pub(crate) fn request(address: IpAddr) -> Self {
        Self { connection: None, address }
    }

    /// Whether the session's connection knows nothing of what comes in this way.
    pub(super) fn is_beside(self) -> bool {
        self.connection.is_none()
    }

    /// Where the client is.
    pub(crate) fn address(self) -> IpAddr {
        self.address
    }

    /// Whether the session listens to it. What comes over a connection that it has released counts no more.
    pub(super) fn is_heard(self, state: &SessionState) -> bool {
        match (self.connection, state.machine.phase()) {
            (Some(connection), phase) => phase == Phase::Attached(connection),
            (None, phase) => !matches!(phase, Phase::Closed(_) | Phase::Moved),
        }
    }

    pub(super) fn input(self, said: Said) -> Input {
        let Some(connection) = self.connection else {
            return match said {
                Said::Command => Input::Request(Request::Command),
                // Only a connection can be answered.
                Said::Hold { .. } => Input::Request(Request::Heard),
                Said::Ack { seq } | Said::Pong { seq } => Input::Request(Request::Ack { seq }),
                Said::TokenRefreshed(expires) => Input::Request(Request::TokenRefreshed(expires)),
                Said::Close(reason) => Input::Close(reason),
            };
        };
        let input = match said {
            Said::Command => ConnectionInput::Command,
            Said::Hold { hold, seq } => ConnectionInput::Hold { hold, seq },
            Said::Ack { seq } => ConnectionInput::Ack { seq },
            Said::Pong { seq } => ConnectionInput::PongMessage { seq },
            Said::TokenRefreshed(expires) => ConnectionInput::TokenRefreshed(expires),
            Said::Close(reason) => ConnectionInput::Close(reason),
        };
        Input::Connection(connection, input)
    }
}

impl Sessions {
    /// A client has said something. Returns whether the session still listens to it.
    pub(crate) fn said(&self, session: &SessionCell, via: Via, said: Said) -> bool {
        let is_heard = self.step(session, |state, step| {
            state.machine.handle(step, via.input(said));
            via.is_heard(state)
        });
        // It may make room for more, of which the connection knows nothing.
        if via.is_beside() && is_heard && matches!(said, Said::Ack { .. } | Said::Pong { .. }) {
            session.wake_to_read();
        }
        is_heard
    }
}

impl SessionCell {
    /// Whom it counts for, when its client speaks in this way.
    pub(crate) fn holder(&self, via: Via) -> Holder {
        Holder::new(self.lock().identity.shared_user(), via.address)
    }

    /// By whom it publishes: its user, on whichever session; where nobody is named, the session.
    pub(crate) fn publisher(&self) -> Publisher {
        let user = self.lock().identity.shared_user();
        user.map_or_else(|| Publisher::Session(self.id().number()), Publisher::User)
    }

    /// Has the connection closed over which the client speaks. Its task is running, and looks at its notes next.
    pub(crate) fn close_connection(&self, via: Via, code: CloseCode) {
        let state = self.lock();
        if let Some(link) = state.link.as_ref().filter(|link| via.connection == Some(link.id)) {
            drop(link.post_to_task(Notes::close(code)));
        }
    }
}
