use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_base::tls::Tls;
use tokio_util::sync::CancellationToken;

use super::bayeux::BayeuxEndpoint;
use crate::admission::{Handshakes, OpenConnections, Permit, Permits, RefusalReason};
use crate::client;
use crate::http::proxies::{BadProxyHeader, Proxies};

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
    /// Takes a permit for a socket from this address, if the number of sockets per address is limited. At the
    /// limit, a silent socket of the address is evicted.
    pub(super) fn permit(&self, address: IpAddr) -> Result<Option<Permit>, NotServed> {
        let Some(sockets) = &self.sockets else { return Ok(None) };
        // Do not count a proxy's own address: the clients behind it are counted separately, as soon as their
        // addresses are known.
        if self.proxies.is_trusted(address) {
            return Ok(None);
        }
        if let Some(permit) = sockets.take(address) {
            return Ok(Some(permit));
        }
        if self.handshakes.evict_from(address, self.client.timeouts.clock().now()) {
            return Ok(Some(sockets.take_beyond_limit(address)));
        }
        Err(NotServed::AddressLimit)
    }

    /// Returns why a connection without a session is evicted in favour of others.
    pub(super) fn eviction_reason(&self) -> NotServed {
        if self.handshakes.is_short_of_descriptors() { NotServed::NoDescriptor } else { NotServed::Evicted }
    }

    pub(super) fn report_refusal(&self, error: &NotServed, address: IpAddr) {
        self.client.limits.refusals.record(error.reason(), address, error);
    }
}

/// Why a connection ended before it had a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotServed {
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
    pub(super) fn reason(&self) -> RefusalReason {
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
