//! The addresses that the server listens on.

use std::io;
use std::net::SocketAddr;

use crate::config::{Config, ListenerKind};
use crate::http::{Listener, SocketOptions};
use crate::retry::Retry;
use crate::systemd::{InheritError, InheritedSocket, InheritedSockets};

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The sockets that were inherited are of no use.
    #[error(transparent)]
    Inherited(#[from] InheritError),
    /// One of them must not be listened on.
    #[error("the socket `{name}` on {address}, of LISTEN_FDS, for listen.{kind}: {problem}")]
    Refused {
        /// Its name.
        name: String,
        /// Its address.
        address: SocketAddr,
        /// What it would be for.
        kind: ListenerKind,
        /// What speaks against it.
        problem: String,
    },
    /// There is one too many, or one that does not say what it is for.
    #[error(
        "the socket `{name}` on {address}, of LISTEN_FDS, is none that is wanted: there can be one named `public`, or on \
         {public}, and one named `admin`, or on {admin}"
    )]
    Unwanted {
        /// Its name.
        name: String,
        /// Its address.
        address: SocketAddr,
        /// `listen.public`.
        public: SocketAddr,
        /// `listen.admin`.
        admin: SocketAddr,
    },
}

/// Both listeners, before anything is served: connections can arrive, and wait.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) public: Listener,
    pub(crate) admin: Listener,
}

impl Listeners {
    /// Listens on both addresses of the configuration.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(config: &Config) -> Result<Self, ListenError> {
        Ok(Self { public: bind(config.public, config)?, admin: bind(config.admin, config)? })
    }

    /// Listens on the sockets that were inherited: on each as what its name says, or else its address. On what is not among them it
    /// listens as the configuration says. While another process has one of these addresses, presumably the one that this follows, it
    /// tries again for [`Config::listen_wait`], or until `is_over`. Whoever connects to the other one meanwhile waits, too.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn inherit_or_bind(
        config: &Config,
        mut inherited: InheritedSockets,
        is_over: impl FnMut() -> bool,
    ) -> Result<Self, ListenError> {
        let mut inherit = |kind| {
            let socket = inherited.take_first(|socket| is_for(kind, socket, config));
            socket.map(|socket| inherit(kind, socket, config)).transpose()
        };
        let (public, admin) = (inherit(ListenerKind::Public)?, inherit(ListenerKind::Admin)?);
        if let Some(InheritedSocket { name, address, .. }) = inherited.take_first(|_| true) {
            let Config { public, admin, .. } = *config;
            return Err(ListenError::Unwanted { name, address, public, admin });
        }
        let mut retry = Retry::new(config.listen_wait, is_over);
        let mut bind_when_free = |address| loop {
            let say = |at_most| {
                tracing::warn!(%address, ?at_most, "waiting for the address: another process has it");
            };
            match bind(address, config) {
                Err(ListenError::Address { error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse && retry.wait(say) => {}
                result => return result,
            }
        };
        let public = public.map_or_else(|| bind_when_free(config.public), Ok)?;
        let admin = admin.map_or_else(|| bind_when_free(config.admin), Ok)?;
        Ok(Self { public, admin })
    }
}

/// A name of ours says what a socket is for. Any other name is its supervisor's own, and the address has to say it.
fn is_for(kind: ListenerKind, socket: &InheritedSocket, config: &Config) -> bool {
    match &*socket.name {
        "public" => kind == ListenerKind::Public,
        "admin" => kind == ListenerKind::Admin,
        _ => socket.address == config.address(kind),
    }
}

fn inherit(kind: ListenerKind, socket: InheritedSocket, config: &Config) -> Result<Listener, ListenError> {
    let InheritedSocket { name, address, socket } = socket;
    config.may_listen(kind, address).map_err(|problem| ListenError::Refused {
        name: name.clone(),
        address,
        kind,
        problem,
    })?;
    tracing::info!(listener = %kind, name, %address, "listening on a socket that was open before");
    Listener::inherit(socket, config.backlog, socket_options(config))
        .map_err(|error| ListenError::Address { address, error })
}

fn bind(address: SocketAddr, config: &Config) -> Result<Listener, ListenError> {
    Listener::bind(address, config.backlog, socket_options(config))
        .map_err(|error| ListenError::Address { address, error })
}

fn socket_options(config: &Config) -> SocketOptions {
    let limits = &config.limits;
    SocketOptions { send_buffer: limits.send_buffer, receive_buffer: limits.receive_buffer }
}
