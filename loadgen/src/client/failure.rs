//! Failures of connections and commands, and the names under which they are counted.

use std::fmt;
use std::io;

use nix::errno::Errno;

use crate::transport::ConnectError;
use crate::transport::websocket::ConnectionEnd;

/// Why a connection could not be opened, a session could not be resumed, or a command could not be executed.
#[derive(Debug)]
pub enum ClientFailure {
    /// The transport could not be opened.
    Connect(ConnectError),
    /// The connection ended before the hello arrived.
    ClosedBeforeHello(ConnectionEnd),
    /// The first message was not a hello.
    NoHello,
    /// The server refused the session with this error.
    SessionRefused(String),
    Timeout,
    /// The token command did not print a token.
    Token(String),
    /// The hello announced a new session instead of the resumed one.
    NotRecovered,
    /// The subscription failed with this error code.
    Subscribe(String),
    /// A message was not published, because the server replied with this error code.
    Publish(String),
    /// The publisher's connection was lost.
    PublisherGone(String),
    /// The server was not restarted.
    Restart(String),
}

impl ClientFailure {
    /// Returns the name under which the failure is counted.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Connect(ConnectError::Io(error)) => io_kind(error).to_owned(),
            Self::Connect(ConnectError::Refused(status)) => format!("http_{status}"),
            Self::Connect(ConnectError::NotHttp(_)) => "not_http".to_owned(),
            Self::Connect(ConnectError::Upgrade(_)) => "upgrade".to_owned(),
            Self::Connect(ConnectError::NoEventStream) => "no_event_stream".to_owned(),
            Self::ClosedBeforeHello(end) => kind_of_end(*end),
            Self::NoHello => "no_hello".to_owned(),
            Self::SessionRefused(_) => "unwelcome".to_owned(),
            Self::Timeout => "timeout".to_owned(),
            Self::Token(_) => "token_command".to_owned(),
            Self::NotRecovered => "not_recovered".to_owned(),
            Self::Subscribe(code) => format!("subscribe_{code}"),
            Self::Publish(code) => format!("publish_{code}"),
            Self::PublisherGone(_) => "publisher_gone".to_owned(),
            Self::Restart(_) => "restart".to_owned(),
        }
    }
}

/// Returns the name under which a failure is counted that was caused by the end of a connection.
pub(crate) fn kind_of_end(end: ConnectionEnd) -> String {
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

impl fmt::Display for ClientFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "{error}"),
            Self::ClosedBeforeHello(end) => write!(f, "{end} before the hello"),
            Self::SessionRefused(why) => write!(f, "the session was refused: {why}"),
            Self::NoHello => write!(f, "the first message is not a hello"),
            Self::Timeout => write!(f, "no hello within the connect timeout"),
            Self::Token(why) => write!(f, "--token-command: {why}"),
            Self::NotRecovered => write!(f, "the server opened a new session instead of resuming"),
            Self::Subscribe(code) => write!(f, "the subscription failed: {code}"),
            Self::Publish(code) => write!(f, "a message was not published: {code}"),
            Self::PublisherGone(why) => write!(f, "the publisher's connection broke: {why}"),
            Self::Restart(why) => write!(f, "the server was not restarted: {why}"),
        }
    }
}
