//! The addresses that the server listens on.

use std::io;
use std::net::SocketAddr;

use encke_base::process::systemd::{InheritError, InheritedSocket, InheritedSockets};
use encke_base::process::{ListeningProcess, Retry};

use crate::config::{Config, ListenerKind};
use crate::http::{Listener, SocketOptions};

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Listening on an address failed.
    #[error("cannot listen on {address}: {error}")]
    Address { address: SocketAddr, error: io::Error },
    /// Another process uses the address.
    #[error("cannot listen on {address}: the address is in use by {holder}")]
    InUse {
        address: SocketAddr,
        /// The process that uses it, as far as it is known.
        holder: String,
    },
    /// The inherited sockets cannot be used.
    #[error(transparent)]
    Inherited(#[from] InheritError),
    /// An inherited socket is not allowed for its listener.
    #[error(
        "the inherited socket `{name}` on {address} (LISTEN_FDS) cannot be used for listen.{kind}: {problem}"
    )]
    Refused { name: String, address: SocketAddr, kind: ListenerKind, problem: String },
    /// An inherited socket is superfluous, or does not indicate which listener it is for.
    #[error(
        "the inherited socket `{name}` on {address} (LISTEN_FDS) belongs to no listener: expected one named `public`, or on \
         {public}, and one named `admin`, or on {admin}"
    )]
    Unwanted {
        name: String,
        address: SocketAddr,
        /// `listen.public`.
        public: SocketAddr,
        /// `listen.admin`.
        admin: SocketAddr,
    },
}

/// Both listeners, before the server serves any connection. Connections can already arrive, and are queued.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) public: Listener,
    pub(crate) admin: Listener,
}

impl Listeners {
    /// Listens on both configured addresses.
    ///
    /// # Errors
    /// Returns [`ListenError`] if an address cannot be listened on.
    pub fn bind(config: &Config) -> Result<Self, ListenError> {
        Ok(Self { public: bind(config.public, config)?, admin: bind(config.admin, config)? })
    }

    /// Listens on the inherited sockets. Their names, or else their addresses, indicate which listener each
    /// of them is for. A listener without an inherited socket is bound as configured. While another process,
    /// presumably this one's predecessor, uses the listener's address, binding is retried for
    /// [`Config::listen_wait`], or until `is_cancelled` returns `true`. In the meantime, clients that connect
    /// to the other listener have to wait.
    ///
    /// # Errors
    /// Returns [`ListenError`] if an address cannot be listened on, or an inherited socket cannot be used.
    pub fn inherit_or_bind(
        config: &Config,
        mut inherited: InheritedSockets,
        is_cancelled: impl FnMut() -> bool,
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
        let mut retry = Retry::new(config.listen_wait, is_cancelled);
        let mut bind_when_free = |address| loop {
            let report = |max_wait| {
                let holder = holder_of(address);
                tracing::warn!(%address, holder, ?max_wait, "the address is in use: trying again for up to max_wait (listen.wait)");
            };
            match bind(address, config) {
                Err(ListenError::Address { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
                    if !retry.wait(report) {
                        return Err(ListenError::InUse { address, holder: holder_of(address) });
                    }
                }
                result => return result,
            }
        };
        let public = public.map_or_else(|| bind_when_free(config.public), Ok)?;
        let admin = admin.map_or_else(|| bind_when_free(config.admin), Ok)?;
        Ok(Self { public, admin })
    }
}

/// Whether an inherited socket is for this listener. The names `public` and `admin` are defined by Encke. Any
/// other name was chosen by the supervisor, so the address decides.
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
    tracing::info!(listener = %kind, name, %address, "listening on an inherited socket");
    Listener::inherit(socket, config.backlog, socket_options(config))
        .map_err(|error| ListenError::Address { address, error })
}

/// Describes the process that listens on an address.
fn holder_of(address: SocketAddr) -> String {
    let process = ListeningProcess::find(address);
    process.map_or_else(|| "another process".to_owned(), |process| process.to_string())
}

fn bind(address: SocketAddr, config: &Config) -> Result<Listener, ListenError> {
    Listener::bind(address, config.backlog, socket_options(config))
        .map_err(|error| ListenError::Address { address, error })
}

fn socket_options(config: &Config) -> SocketOptions {
    let limits = &config.limits;
    SocketOptions { send_buffer: limits.send_buffer, receive_buffer: limits.receive_buffer }
}
