//! Failures of connections and commands, and the names under which they are counted.

use std::io;

use nix::errno::Errno;
use strum::IntoStaticStr;
use thiserror::Error;

use crate::transport::ConnectError;
use crate::transport::websocket::ConnectionEnd;

/// Why a connection could not be opened, a session could not be resumed, or a command could not be executed.
#[derive(Debug, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ClientFailure {
    #[error("{0}")]
    Connect(ConnectError),
    #[error("{0} before the hello")]
    ClosedBeforeHello(ConnectionEnd),
    #[error("the first message is not a hello")]
    NoHello,
    #[error("the session was refused: {0}")]
    #[strum(serialize = "unwelcome")]
    SessionRefused(String),
    #[error("no hello within the connect timeout")]
    Timeout,
    #[error("--token-command: {0}")]
    #[strum(serialize = "token_command")]
    Token(String),
    #[error("the server opened a new session instead of resuming")]
    NotRecovered,
    #[error("the subscription failed: {0}")]
    Subscribe(String),
    /// A message was not published, because the server replied with this error code.
    #[error("a message was not published: {0}")]
    Publish(String),
    #[error("the publisher's connection broke: {0}")]
    PublisherGone(String),
    #[error("the server was not restarted: {0}")]
    Restart(String),
}

impl ClientFailure {
    /// Returns the name under which the failure is counted.
    pub fn kind(&self) -> String {
        let name: &'static str = match self {
            Self::Connect(ConnectError::Io(error)) => io_kind(error),
            Self::Connect(ConnectError::Refused(status)) => return format!("http_{status}"),
            Self::Connect(error) => error.into(),
            Self::ClosedBeforeHello(end) => return kind_of_end(*end),
            Self::Subscribe(code) => return format!("subscribe_{code}"),
            Self::Publish(code) => return format!("publish_{code}"),
            _ => self.into(),
        };
        name.to_owned()
    }
}

/// Returns the name under which a failure is counted that was caused by the end of a connection.
pub fn kind_of_end(end: ConnectionEnd) -> String {
    match end {
        ConnectionEnd::Fault(fault) => format!("frame_{}", fault.name()),
        ConnectionEnd::Closed(_) | ConnectionEnd::NoCloseFrame | ConnectionEnd::Status(_) => {
            format!("closed_{}", end.code())
        }
    }
}

impl<E: Into<ConnectError>> From<E> for ClientFailure {
    fn from(error: E) -> Self {
        Self::Connect(error.into())
    }
}

fn io_kind(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::UnexpectedEof => "eof",
        io::ErrorKind::TimedOut => "timed_out",
        io::ErrorKind::AddrNotAvailable => "no_source_port",
        _ if error.raw_os_error() == Some(Errno::EMFILE as i32) => "too_many_files",
        _ => "io",
    }
}
