//! Opens connections to each kind of server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::connection::{ClientConnection, Wire};
use crate::polling::{BayeuxDialect, Dialect, HttpWire, JsonDialect, PollSession, PollWire, SocketWire};
use crate::target::UrlScheme;
use crate::transport::websocket::{WebSocket, request_bytes, upgrade};
use crate::transport::{Endpoint, EventStream, Sources, Stream};
use crate::{ClientFailure, Greeting, ServerUrl, Target, Ticket, TlsOptions, TokenSource, Traffic};

/// Server to connect to, and the options for doing so.
#[derive(Clone, Debug)]
pub struct DialOptions {
    pub url: ServerUrl,
    pub target: Target,
    /// Limit for the TCP connection, TLS, the upgrade and the hello together.
    pub timeout: Duration,
    /// Value given by the user, which overrides the one that the server announces. The same applies to the
    /// next field.
    pub pong_timeout: Option<Duration>,
    pub poll_hold: Option<Duration>,
    /// Whether to acknowledge messages with the acknowledgement extension. Only for Bayeux.
    pub ext_ack: bool,
    pub token: Option<TokenSource>,
    pub tls: TlsOptions,
    /// Size of the kernel's receive buffer. `None`: the kernel chooses it.
    pub receive_buffer_bytes: Option<u32>,
    /// Whether connections close with a reset, as happens when a process dies with unread bytes.
    pub closes_with_reset: bool,
}

/// Opens connections to one server.
#[derive(Debug)]
pub struct Dialer {
    options: DialOptions,
    endpoint: Arc<Endpoint>,
    sources: Sources,
    traffic: Traffic,
}

type OpenResult = Result<(ClientConnection, Greeting), ClientFailure>;

impl Dialer {
    pub fn new(options: DialOptions, sources: Sources, traffic: &Traffic) -> Self {
        let endpoint = Endpoint::new(options.url.clone(), options.tls.clone());
        Self { options, endpoint, sources, traffic: traffic.clone() }
    }

    /// Runs the token command for the first time, if there is one.
    pub async fn check_token(&self) -> Result<(), ClientFailure> {
        let headers = timeout(self.options.timeout, self.headers()).await;
        headers.map_err(|_| ClientFailure::Token("the command timed out".to_owned()))?.map(drop)
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub fn server(&self) -> SocketAddr {
        self.sources.server()
    }

    /// Returns the number of bytes sent to open a connection. Only correct for WebSocket without TLS.
    pub async fn opening_bytes(&self, resume: Option<&Ticket>) -> usize {
        let headers = self.headers().await.unwrap_or_default();
        request_bytes(self.options.url.authority(), &self.socket_path(resume), &headers)
    }

    /// Opens a connection without sending a request.
    pub async fn connect(&self) -> Result<Stream, ClientFailure> {
        let connecting = timeout(self.options.timeout, self.stream());
        connecting.await.unwrap_or(Err(ClientFailure::Timeout))
    }

    pub async fn open(&self, resume: Option<&Ticket>) -> OpenResult {
        let opening = timeout(self.options.timeout, self.open_without_timeout(resume));
        opening.await.unwrap_or(Err(ClientFailure::Timeout))
    }

    async fn open_without_timeout(&self, resume: Option<&Ticket>) -> OpenResult {
        let headers = self.headers().await?;
        let stream = self.stream().await?;
        let (target, endpoint) = (self.options.target, &self.endpoint);
        let (wire, mut greeting) = match target {
            Target::Encke | Target::Plain => {
                (Wire::Socket(self.upgrade(stream, resume, &headers).await?), Greeting::default())
            }
            Target::Sse => self.open_event_stream(stream, resume, &headers).await?,
            Target::Poll => {
                self.open_polls(stream, &headers, Box::new(JsonDialect::new(endpoint, resume))).await?
            }
            Target::Bayeux => {
                let dialect = Box::new(BayeuxDialect::new(endpoint, resume, self.options.ext_ack));
                self.open_polls(stream, &headers, dialect).await?
            }
        };
        let mut connection = ClientConnection::new(target, wire, self.traffic.opened());
        if target == Target::Encke {
            if let Some(positions) = resume.and_then(|ticket| ticket.positions.as_deref()) {
                connection.send(positions).await;
            }
            greeting = connection.read_hello().await?;
        }
        connection.live.connects.increment();
        greeting.pong_timeout = self.options.pong_timeout.unwrap_or(greeting.pong_timeout);
        greeting.poll_hold = self.options.poll_hold.unwrap_or(greeting.poll_hold);
        Ok((connection, greeting))
    }

    /// Returns the header lines to send with a request: empty, or one line.
    async fn headers(&self) -> Result<String, ClientFailure> {
        match &self.options.token {
            Some(source) => source.header().await,
            None => Ok(String::new()),
        }
    }

    async fn stream(&self) -> Result<Stream, ClientFailure> {
        let stream = self.sources.connect(self.options.receive_buffer_bytes).await?;
        if self.options.closes_with_reset {
            stream.set_zero_linger()?;
        }
        Ok(self.endpoint.secure(stream).await?)
    }

    async fn upgrade(
        &self,
        mut stream: Stream,
        resume: Option<&Ticket>,
        headers: &str,
    ) -> Result<WebSocket, ClientFailure> {
        let host = self.options.url.authority();
        let rest = upgrade(&mut stream, host, &self.socket_path(resume), headers).await?;
        Ok(WebSocket::new(stream, rest))
    }

    /// Returns the path of a WebSocket. Only in the `json` dialect it determines the session to resume.
    fn socket_path(&self, resume: Option<&Ticket>) -> String {
        let resume = resume.filter(|_| self.options.target == Target::Encke);
        self.options.url.path_with(&resume.map(Ticket::query).unwrap_or_default())
    }

    /// Opens an event stream. A server that accepts the last event id is assumed to continue after it.
    async fn open_event_stream(
        &self,
        stream: Stream,
        resume: Option<&Ticket>,
        headers: &str,
    ) -> Result<(Wire, Greeting), ClientFailure> {
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        let stream = EventStream::open(stream, &self.endpoint, headers, last_id.as_deref()).await?;
        let recovered = last_id.is_some();
        let ticket = Ticket { last_id, ..Ticket::default() };
        Ok((Wire::Events(Box::new(stream)), Greeting { ticket, recovered, ..Greeting::default() }))
    }

    async fn open_polls(
        &self,
        stream: Stream,
        headers: &str,
        dialect: Box<dyn Dialect>,
    ) -> Result<(Wire, Greeting), ClientFailure> {
        let wire = match self.options.url.scheme() {
            UrlScheme::Http => PollWire::Http(HttpWire::new(stream, &self.endpoint, headers)),
            UrlScheme::Ws => PollWire::Socket(SocketWire::new(self.upgrade(stream, None, headers).await?)),
        };
        // Boxed because a task is as large as its largest state.
        let (session, greeting) = Box::pin(PollSession::open(wire, dialect)).await?;
        Ok((Wire::Polls(Box::new(session)), greeting))
    }
}
