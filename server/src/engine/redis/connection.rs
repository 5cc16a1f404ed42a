//! One connection to Redis. It has no deadlines of its own: whoever uses it has.

use std::io;
use std::sync::Arc;

use futures_util::future::select;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::address::RedisAddress;
use super::tls::RedisTls;
use crate::executor::Executor;

/// Requests that may wait to be written: more than there ever are, so that whatever is asked is on its way at once, in the order in which it was
/// asked.
const MOST_UNWRITTEN: usize = 4096;

/// An open connection. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) commands: MultiplexedConnection,
    _end: DropGuard,
}

impl Connection {
    /// Connects, and says who it is. What Redis says by itself goes to `pushes`. `over` is cancelled when it ends, and ends it.
    pub(super) async fn open(
        address: &RedisAddress,
        tls: Option<&RedisTls>,
        who: &RedisConnectionInfo,
        over: CancellationToken,
        pushes: impl AsyncPushSender,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, RedisError> {
        match address {
            RedisAddress::Tcp(host, port) => {
                let stream = tcp(host, *port).await?;
                Self::greet(stream, who, over, pushes, executor).await
            }
            RedisAddress::Tls(host, port) => {
                let tls = tls.ok_or_else(|| odd("there are no settings for TLS"))?;
                let stream = tls.connect(host, tcp(host, *port).await?).await?;
                Self::greet(stream, who, over, pushes, executor).await
            }
            RedisAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                Self::greet(stream, who, over, pushes, executor).await
            }
            #[cfg(feature = "simulation")]
            RedisAddress::Simulated(redis) => {
                let stream = redis.connect()?;
                Self::greet(stream, who, over, pushes, executor).await
            }
        }
    }

    async fn greet(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        who: &RedisConnectionInfo,
        over: CancellationToken,
        pushes: impl AsyncPushSender,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, RedisError> {
        // Timeouts of the crate's own would be tokio's, which the server has none of.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MOST_UNWRITTEN)
            .set_push_sender(pushes);
        let (commands, driver) = MultiplexedConnection::new_with_config(who, stream, config).await?;
        let end = over.clone().drop_guard();
        let ended = over.clone();
        executor.spawn(Box::pin(async move {
            select(Box::pin(driver), Box::pin(ended.clone().cancelled_owned())).await;
            ended.cancel();
        }));
        Ok(Self { commands, _end: end })
    }
}

/// Who connects; empty: the default user, no password.
pub(super) fn login(user: &str, password: &str) -> RedisConnectionInfo {
    let mut who = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("encke", env!("CARGO_PKG_VERSION"));
    if !user.is_empty() {
        who = who.set_username(user);
    }
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

/// What an error is called in logs and answers: without what was sent.
pub(super) fn describe(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("Redis says {code}: {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    }
}

/// As an error of this crate's user.
pub(super) fn odd(what: &'static str) -> RedisError {
    io::Error::other(what).into()
}
