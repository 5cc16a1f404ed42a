//! The public listener, which serves clients: WebSocket upgrades, event streams, and long-polling.

mod bayeux;
mod cors;
mod deadline;
#[cfg(test)]
mod ended_session_tests;
mod events;
mod long_poll;
mod module;
mod poll_loop;
mod query;
mod receive;
mod routing;
mod session_request;
mod sessionless;
mod shared_socket;
mod upgrade_response;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use encke_base::tls::Tls;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::admission::{Handshakes, OpenConnections, Permit, Permits, RefusalReason};
use crate::client;
use crate::http::proxies::{BadProxyHeader, Proxies};
pub(crate) use bayeux::BayeuxEndpoint;
#[cfg(feature = "simulation")]
pub(crate) use bayeux::{Requester, SocketUpgrade, request_with_body, serve_socket};
#[cfg(feature = "simulation")]
pub(crate) use events::accept as accept_events;
#[cfg(feature = "simulation")]
pub(crate) use long_poll::{accept as accept_poll, carry_out_all, session as session_of};
#[cfg(any(feature = "fuzzing", feature = "simulation"))]
pub(crate) use query::parse_query;
#[cfg(feature = "simulation")]
pub(crate) use shared_socket::SharedSocket;

/// State shared by all connections of the public listener.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Services>,
    pub(crate) proxies: Proxies,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Time within which a connection must get a session.
    pub(crate) handshake_timeout: Duration,
    /// Permits for sockets, if the number of connections per address is limited.
    pub(crate) sockets: Option<Arc<Permits>>,
    pub(crate) bayeux: BayeuxEndpoint,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) connections: OpenConnections,
    /// Cancelled when the server drains.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Takes a permit for a socket from this address, if the number of sockets per address is limited.
    fn permit(&self, address: IpAddr) -> Result<Option<Permit>, NotServed> {
        match &self.sockets {
            // Do not count a proxy's own address: the clients behind it are counted separately, as soon as
            // their addresses are known.
            Some(sockets) if !self.proxies.is_trusted(address) => match sockets.take(address) {
                Some(permit) => Ok(Some(permit)),
                None => Err(NotServed::AddressLimit),
            },
            _ => Ok(None),
        }
    }

    /// Returns why a connection without a session is evicted in favour of others.
    fn eviction_reason(&self) -> NotServed {
        if self.handshakes.is_short_of_descriptors() { NotServed::NoDescriptor } else { NotServed::Evicted }
    }

    fn report_refusal(&self, error: &NotServed, address: IpAddr) {
        self.client.limits.refusals.record(error.reason(), address, error);
    }
}

/// Why a connection ended before it had a session.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("limits.max_connections_per_address")]
    AddressLimit,
    #[error("the peer is not in listen.trusted_proxies")]
    UntrustedProxy,
    #[error(transparent)]
    Proxy(#[from] BadProxyHeader),
    #[error("{0}")]
    ConnectionLost(std::io::Error),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Http(hyper::Error),
    #[error("limits.handshake_timeout")]
    Timeout,
    #[error("limits.max_handshakes")]
    Evicted,
    #[error("out of file descriptors; raise LimitNOFILE or `ulimit -n`")]
    NoDescriptor,
    #[error("the server is shutting down")]
    Draining,
}

impl NotServed {
    fn reason(&self) -> RefusalReason {
        match self {
            Self::AddressLimit => RefusalReason::Address,
            Self::UntrustedProxy | Self::Proxy(_) => RefusalReason::Proxy,
            Self::Tls(_) => RefusalReason::Tls,
            Self::ConnectionLost(_) | Self::Http(_) => RefusalReason::Http,
            Self::Timeout => RefusalReason::HandshakeTimeout,
            Self::Evicted | Self::NoDescriptor => RefusalReason::Handshakes,
            Self::Draining => RefusalReason::Draining,
        }
    }
}

/// Serves HTTP/1.1 on one connection, within TLS if that is configured. After `handshake_timeout` the
/// connection is closed unless it has a session, even if the client sends nothing, sends half a request, or
/// does not read the responses. A long-polling client has the same time for each request and for the pause
/// before it.
///
/// HTTP/2 is not supported, because hyper-util's `auto` builder has no timeout while it detects the version.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, context: Arc<Context>) {
    let peer = peer.ip();
    if context.proxies.proxy_protocol && !context.proxies.is_trusted(peer) {
        return context.report_refusal(&NotServed::UntrustedProxy, peer);
    }
    let permit = match context.permit(peer) {
        Ok(permit) => permit,
        Err(error) => return context.report_refusal(&error, peer),
    };
    // Count the connection before its task first runs, so that a drain does not overlook it.
    let open_connection = context.connections.enter(permit);
    let handshake = context.handshakes.begin(peer, context.client.timeouts.clock().now());
    poll_loop::spawn(socket, peer, handshake, open_connection, context);
}
