use std::net::IpAddr;
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::Publisher;
use encke_core::Timestamp;
use encke_core::close::{CloseCode, CloseReason};
use encke_core::session::{ConnectionId, ConnectionInput, Input, Phase, RequestInput};

use crate::session::table::{Mailbox, SessionCell, SessionState, Signals};

/// How a command from a client reaches its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSource {
    /// The connection; `None` for a separate request that carries the session's secret, which may arrive at
    /// any time.
    connection: Option<ConnectionId>,
    address: IpAddr,
}

/// Input from a client that the session's state machine handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientInput {
    /// A command, valid or not.
    Command,
    /// An acknowledgement of everything up to this seq.
    Ack { seq: u64 },
    /// The answer to a ping, sent as a message.
    Pong { seq: u64 },
    /// A replacement of the token by one that expires at this time, or never.
    TokenRefreshed(Option<Timestamp>),
    /// A request for an answer as soon as there is something to send, or after `hold`. `seq` is the last
    /// message that the client has received, if reported.
    Hold { hold: Duration, seq: Option<u64> },
    /// A request to end the session.
    Close(CloseReason),
}

impl CommandSource {
    /// Creates the source of commands that arrive over this connection.
    pub(crate) fn connection(mailbox: &Mailbox) -> Self {
        Self { connection: Some(mailbox.id), address: mailbox.address() }
    }

    /// Creates the source of a command that arrives in a separate request, outside the session's connection.
    pub(crate) fn request(address: IpAddr) -> Self {
        Self { connection: None, address }
    }

    /// Whether the command arrives outside the session's connection.
    pub(crate) fn is_out_of_band(self) -> bool {
        self.connection.is_none()
    }

    /// Returns the remote address of the client.
    pub(crate) fn address(self) -> IpAddr {
        self.address
    }

    /// Whether the session accepts input from this source. Input over a connection that is no longer attached
    /// is ignored.
    pub(crate) fn is_current(self, state: &SessionState) -> bool {
        match (self.connection, state.machine.phase()) {
            (Some(connection), phase) => phase == Phase::Attached(connection),
            (None, phase) => !matches!(phase, Phase::Closed(_) | Phase::Moved),
        }
    }

    pub(crate) fn input(self, input: ClientInput) -> Input {
        let Some(connection) = self.connection else {
            return match input {
                ClientInput::Command => Input::Request(RequestInput::Command),
                // Only a request on a connection can be held.
                ClientInput::Hold { .. } => Input::Request(RequestInput::Activity),
                ClientInput::Ack { seq } | ClientInput::Pong { seq } => {
                    Input::Request(RequestInput::Ack { seq })
                }
                ClientInput::TokenRefreshed(expires) => Input::Request(RequestInput::TokenRefreshed(expires)),
                ClientInput::Close(reason) => Input::Close(reason),
            };
        };
        let input = match input {
            ClientInput::Command => ConnectionInput::Command,
            ClientInput::Hold { hold, seq } => ConnectionInput::Hold { hold, seq },
            ClientInput::Ack { seq } => ConnectionInput::Ack { seq },
            ClientInput::Pong { seq } => ConnectionInput::PongMessage { seq },
            ClientInput::TokenRefreshed(expires) => ConnectionInput::TokenRefreshed(expires),
            ClientInput::Close(reason) => ConnectionInput::Close(reason),
        };
        Input::Connection(connection, input)
    }
}

impl SessionCell {
    /// Returns the quota owner that a command from this source counts against.
    pub(crate) fn quota_owner(&self, source: CommandSource) -> QuotaOwner {
        QuotaOwner::new(self.lock().identity.shared_user(), source.address)
    }

    /// Returns the publisher for detecting duplicates: the user, across sessions, or the session if the
    /// client is anonymous.
    pub(crate) fn publisher(&self) -> Publisher {
        let user = self.lock().identity.shared_user();
        user.map_or_else(|| Publisher::Session(self.id().number()), Publisher::User)
    }

    /// Closes the connection that a command arrived over. Its task is running, and will check its signals
    /// next, so it need not be woken.
    pub(crate) fn close_connection(&self, source: CommandSource, code: CloseCode) {
        let state = self.lock();
        if let Some(mailbox) = state.mailbox.as_ref().filter(|mailbox| source.connection == Some(mailbox.id))
        {
            drop(mailbox.post_to_task(Signals::close(code)));
        }
    }
}
