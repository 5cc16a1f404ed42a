//! Why a connection could not be opened or used, and under which name that is counted.

use std::fmt;
use std::io;

use nix::errno::Errno;

use crate::transport::ConnectError;
use crate::transport::websocket::End;

/// Why a connection could not be opened, a session not resumed, or a command not carried out.
#[derive(Debug)]
pub enum Failure {
    /// There is no WebSocket, or no stream of events.
    Connect(ConnectError),
    /// The connection ended like this before it said hello.
    ClosedBeforeHello(End),
    /// The first message was something else.
    NoHello,
    /// The server has refused the session, and said this of it.
    Unwelcome(String),
    Timeout,
    /// The command that writes tokens has written none.
    Token(String),
    /// The hello was that of a new session.
    NotRecovered,
    /// The channel was not subscribed to: by this code.
    Subscribe(String),
    /// A message was not published: by this code.
    Publish(String),
    /// The publisher's connection broke.
    PublisherGone(String),
    /// The server was not restarted.
    Restart(String),
}

impl Failure {
    /// The name under which it is counted.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Connect(ConnectError::Io(error)) => io_kind(error).to_owned(),
            Self::Connect(ConnectError::Refused(status)) => format!("http_{status}"),
            Self::Connect(ConnectError::NotHttp(_)) => "not_http".to_owned(),
            Self::Connect(ConnectError::Upgrade(_)) => "upgrade".to_owned(),
            Self::Connect(ConnectError::NoEventStream) => "no_event_stream".to_owned(),
            Self::ClosedBeforeHello(end) => kind_of_end(*end),
            Self::NoHello => "no_hello".to_owned(),
            Self::Unwelcome(_) => "unwelcome".to_owned(),
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

/// The name under which the end of a connection is counted, where it made something fail.
pub(crate) fn kind_of_end(end: End) -> String {
    match end {
        End::Fault(fault) => format!("frame_{}", fault.name()),
        End::Closed(_) | End::Cut | End::Status(_) => format!("closed_{}", end.code()),
    }
}

impl<E: Into<ConnectError>> From<E> for Failure {
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "{error}"),
            Self::ClosedBeforeHello(end) => write!(f, "{end} before the hello"),
            Self::Unwelcome(why) => write!(f, "the session was refused: {why}"),
            Self::NoHello => write!(f, "the first message is no hello"),
            Self::Timeout => write!(f, "no hello within the connect timeout"),
            Self::Token(why) => write!(f, "no token by --token-command: {why}"),
            Self::NotRecovered => write!(f, "a new session in place of the resumed one"),
            Self::Subscribe(code) => write!(f, "the subscription failed: {code}"),
            Self::Publish(code) => write!(f, "a message was not published: {code}"),
            Self::PublisherGone(why) => write!(f, "the publisher's connection broke: {why}"),
            Self::Restart(why) => write!(f, "the server was not restarted: {why}"),
        }
    }
}
