//! A single connection to Redis. Deadlines are left to the callers.

use std::io;
use std::sync::Arc;

use encke_base::executor::Executor;
use futures_util::future::select;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::address::RedisAddress;
use super::errors::unexpected;
use super::reply_limit::LimitedReplies;
use super::tls::RedisTls;

/// Capacity of the queue of unwritten requests. It exceeds the number of requests ever in flight, so that all
/// requests are queued immediately and in order.
const MAX_UNWRITTEN: usize = 8192;

/// An open connection, closed on drop.
#[derive(Debug)]
pub(super) struct RedisConnection {
    pub(super) commands: MultiplexedConnection,
    _close_on_drop: DropGuard,
}

impl RedisConnection {
    /// Connects and logs in. A reply longer than `max_reply_bytes` closes the connection. Messages that Redis
    /// pushes go to `pushes`. Cancelling `closed` closes the connection; if the connection closes for another
    /// reason, `closed` is cancelled.
    pub(super) async fn open(
        address: &RedisAddress,
        tls: Option<&RedisTls>,
        who: &RedisConnectionInfo,
        max_reply_bytes: usize,
        closed: CancellationToken,
        pushes: impl AsyncPushSender,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, RedisError> {
        match address {
            RedisAddress::Tcp(host, port) => {
                let stream = tcp(host, *port).await?;
                Self::handshake(stream, who, max_reply_bytes, closed, pushes, executor).await
            }
            RedisAddress::Tls(host, port) => {
                let tls = tls.ok_or_else(|| unexpected("TLS settings are missing"))?;
                let stream = tls.connect(host, tcp(host, *port).await?).await?;
                Self::handshake(stream, who, max_reply_bytes, closed, pushes, executor).await
            }
            RedisAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                Self::handshake(stream, who, max_reply_bytes, closed, pushes, executor).await
            }
            #[cfg(feature = "simulation")]
            RedisAddress::Simulated(redis) => {
                let stream = redis.connect()?;
                Self::handshake(stream, who, max_reply_bytes, closed, pushes, executor).await
            }
        }
    }

    async fn handshake(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        who: &RedisConnectionInfo,
        max_reply_bytes: usize,
        closed: CancellationToken,
        pushes: impl AsyncPushSender,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, RedisError> {
        let stream = LimitedReplies::new(stream, max_reply_bytes);
        // The crate's own timeouts would use tokio's timers, which the server does not run.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MAX_UNWRITTEN)
            .set_push_sender(pushes);
        let (commands, driver) = MultiplexedConnection::new_with_config(who, stream, config).await?;
        let guard = closed.clone().drop_guard();
        let on_end = closed.clone();
        executor.spawn(Box::pin(async move {
            select(Box::pin(driver), Box::pin(on_end.clone().cancelled_owned())).await;
            on_end.cancel();
        }));
        Ok(Self { commands, _close_on_drop: guard })
    }
}

/// Login parameters. An empty user means the default user, an empty password no password.
pub(super) fn login_info(user: &str, password: &SecretString) -> RedisConnectionInfo {
    let mut who = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("encke", env!("CARGO_PKG_VERSION"));
    if !user.is_empty() {
        who = who.set_username(user);
    }
    let password = password.expose_secret();
    if !password.is_empty() {
        who = who.set_password(password);
    }
    who
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
