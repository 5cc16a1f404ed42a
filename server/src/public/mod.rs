//! The listener for clients: the WebSocket upgrade, and the requests for a stream of events and of long-polling.

mod admit;
mod arrival;
mod bayeux;
mod cors;
mod end;
mod events;
mod module;
mod poll;
mod polls;
mod query;
mod receive;
mod request;
mod switching;
#[cfg(test)]
mod unheard_tests;
mod wants_session;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::admission::{Handshakes, OpenConnections, Permit, Permits, RefusalReason};
use crate::client;
use crate::proxies::{BadProxyHeader, Proxies};
use crate::tls::Tls;
pub(crate) use bayeux::Bayeux;
#[cfg(feature = "simulation")]
pub(crate) use bayeux::{SocketUpgrade, asked_in, serve_socket};
#[cfg(feature = "simulation")]
pub(crate) use events::accept as accept_events;
#[cfg(feature = "simulation")]
pub(crate) use poll::{accept as accept_poll, carry_out_all, session as session_of};
#[cfg(any(feature = "fuzzing", feature = "simulation"))]
pub(crate) use query::parse_query;

/// What every connection of the public listener shares.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Context>,
    pub(crate) proxies: Proxies,
    pub(crate) tls: Option<Arc<Tls>>,
    /// How long a connection may take to become a session's.
    pub(crate) handshake_timeout: Duration,
    /// Sockets by address, if the connections of one address are limited.
    pub(crate) sockets: Option<Arc<Permits>>,
    pub(crate) bayeux: Bayeux,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) connections: OpenConnections,
    /// Set when the server drains.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// A permit for a socket from this address, where sockets of an address are limited.
    fn permit(&self, address: IpAddr) -> Result<Option<Permit>, NotServed> {
        match &self.sockets {
            // Each client behind a proxy counts for itself, once it is known.
            Some(sockets) if !self.proxies.trust(address) => match sockets.take(address) {
                Some(permit) => Ok(Some(permit)),
                None => Err(NotServed::Address),
            },
            _ => Ok(None),
        }
    }

    /// Why one without a session is cut for others.
    fn cut(&self) -> NotServed {
        if self.handshakes.want_descriptors() { NotServed::NoDescriptor } else { NotServed::Cut }
    }

    fn refused(&self, error: &NotServed, address: IpAddr) {
        self.client.refusals.refused(error.reason(), address, error);
    }
}

/// Why a connection ended before it had a session.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("limits.max_connections_per_address")]
    Address,
    #[error("not one of listen.trusted_proxies")]
    Elsewhere,
    #[error(transparent)]
    Proxy(#[from] BadProxyHeader),
    #[error("{0}")]
    Gone(std::io::Error),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Http(hyper::Error),
    #[error("limits.handshake_timeout")]
    Timeout,
    #[error("limits.max_handshakes")]
    Cut,
    #[error("too few descriptors; raise LimitNOFILE or `ulimit -n`")]
    NoDescriptor,
}

impl NotServed {
    fn reason(&self) -> RefusalReason {
        match self {
            Self::Address => RefusalReason::Address,
            Self::Elsewhere | Self::Proxy(_) => RefusalReason::Proxy,
            Self::Tls(_) => RefusalReason::Tls,
            Self::Gone(_) | Self::Http(_) => RefusalReason::Http,
            Self::Timeout => RefusalReason::HandshakeTimeout,
            Self::Cut | Self::NoDescriptor => RefusalReason::Handshakes,
        }
    }
}

/// Serves HTTP/1.1 on one connection, within TLS if that is configured. After `handshake_timeout` the connection has a
/// session or is cut, even if the client sends nothing, or half a request, or does not read its answers. A client of long-polling has
/// as long for each of its requests, and for the pause before it.
///
/// HTTP/1.1 alone, because hyper-util's `auto` builder has no timeout while it guesses the version.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, context: Arc<Context>) {
    let peer = peer.ip();
    if context.proxies.proxy_protocol && !context.proxies.trust(peer) {
        return context.refused(&NotServed::Elsewhere, peer);
    }
    let permit = match context.permit(peer) {
        Ok(permit) => permit,
        Err(error) => return context.refused(&error, peer),
    };
    // Counted before the task first runs, so that a drain does not overlook it.
    let open_connection = context.connections.enter(permit);
    let handshake = context.handshakes.begin(peer, context.client.timeouts.clock().now());
    arrival::spawn(socket, peer, handshake, open_connection, context);
}
