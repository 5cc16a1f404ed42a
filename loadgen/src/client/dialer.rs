//! Opens connections to each kind of server.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::token::Tokens;
use super::{
    ClientConnection, ClientFailure, Greeting, ProtocolConnection, Ticket, TokenSource, encke, polling,
    socketio,
};
use crate::record::{ConnectionGuard, Traffic};
use crate::target::{ServerUrl, Target, UrlScheme};
use crate::transport::Sources;
use crate::transport::event_stream;
use crate::transport::websocket::{WebSocket, request_bytes, upgrade};

/// Server to connect to, and the options for doing so.
#[derive(Clone, Debug)]
pub struct DialOptions {
    pub url: ServerUrl,
    pub target: Target,
    /// Limit for the TCP connection, the upgrade and the hello together.
    pub timeout: Duration,
    /// Value given by the user, which overrides the one that the server announces. The same applies to the
    /// next two fields.
    pub pong_timeout: Option<Duration>,
    pub reconnect_window: Option<Duration>,
    pub poll_hold: Option<Duration>,
    /// Whether to acknowledge messages with the acknowledgement extension. Only for Bayeux.
    pub ext_ack: bool,
    /// Source of the tokens that authenticate clients.
    pub token: Option<TokenSource>,
}

/// Opens connections to one server.
#[derive(Debug)]
pub struct Dialer {
    options: DialOptions,
    /// The URL in `options`, shared with the long-polling connections.
    url: Rc<ServerUrl>,
    tokens: Arc<Tokens>,
    sources: Sources,
    traffic: Traffic,
}

type OpenResult = Result<(ClientConnection, Greeting), ClientFailure>;

impl Dialer {
    pub fn new(options: DialOptions, sources: Sources, traffic: &Traffic) -> Self {
        let tokens = Arc::new(Tokens::new(options.token.clone()));
        let url = Rc::new(options.url.clone());
        Self { options, url, tokens, sources, traffic: traffic.clone() }
    }

    /// Runs the token command for the first time, if there is one.
    pub(crate) async fn check_token(&self) -> Result<(), ClientFailure> {
        let headers = timeout(self.options.timeout, self.tokens.headers()).await;
        headers.map_err(|_| ClientFailure::Token("the command timed out".to_owned()))?.map(drop)
    }

    /// Opens a connection only to receive the server's greeting, and closes it immediately. The connection is
    /// not counted.
    pub(crate) async fn fetch_greeting(&self) -> Result<Greeting, ClientFailure> {
        let (options, url, sources) = (self.options.clone(), self.url.clone(), self.sources.clone());
        let dialer = Self { options, url, tokens: self.tokens.clone(), sources, traffic: Traffic::default() };
        let (connection, hello) = dialer.open(None).await?;
        connection.close().await;
        Ok(hello)
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.sources.server()
    }

    /// Returns the number of bytes sent to open a connection. Only correct for WebSocket.
    pub(crate) async fn opening_bytes(&self, resume: Option<&Ticket>) -> usize {
        let headers = self.tokens.headers().await.unwrap_or_default();
        let query = match self.options.target {
            Target::Encke => encke::query(resume),
            Target::Socketio => socketio::QUERY.to_owned(),
            Target::Plain | Target::Sse | Target::Poll | Target::Bayeux => String::new(),
        };
        request_bytes(self.options.url.authority(), &self.options.url.path_with(&query), &headers)
    }

    /// Opens a TCP connection without sending anything.
    pub(crate) async fn connect(&self) -> Result<(TcpStream, ConnectionGuard), ClientFailure> {
        let stream = timeout(self.options.timeout, self.sources.connect(None))
            .await
            .map_err(|_| ClientFailure::Timeout)??;
        Ok((stream, self.traffic.opened()))
    }

    pub async fn open(&self, resume: Option<&Ticket>) -> OpenResult {
        self.open_with(resume, None).await
    }

    /// Like [`Self::open`], with this size for the kernel's receive buffer.
    pub(crate) async fn open_with(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> OpenResult {
        let opening = self.open_without_timeout(resume, receive_buffer_bytes);
        timeout(self.options.timeout, opening).await.unwrap_or(Err(ClientFailure::Timeout))
    }

    async fn open_without_timeout(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> OpenResult {
        let headers = self.tokens.headers().await?;
        let stream = self.sources.connect(receive_buffer_bytes).await?;
        let (connection, mut greeting) = match self.options.target {
            Target::Encke => {
                let socket = self.open_websocket(stream, &encke::query(resume), &headers).await?;
                let mut connection = self.connection(ProtocolConnection::Encke(socket));
                let greeting = encke::greeting(&mut connection).await?;
                (connection, greeting)
            }
            Target::Plain => {
                let socket = self.open_websocket(stream, "", &headers).await?;
                (self.connection(ProtocolConnection::Plain(socket)), Greeting::default())
            }
            Target::Sse => self.open_event_stream(stream, resume, &headers).await?,
            Target::Socketio => {
                let socket = self.open_websocket(stream, socketio::QUERY, &headers).await?;
                let mut connection = self.connection(ProtocolConnection::Socketio(socket));
                let greeting = socketio::greeting(&mut connection, resume).await?;
                (connection, greeting)
            }
            Target::Poll => {
                let (polls, greeting) = polling::open_json(stream, &self.url, headers, resume).await?;
                (self.connection(ProtocolConnection::Poll(Box::new(polls))), greeting)
            }
            Target::Bayeux if self.options.url.scheme() == UrlScheme::Ws => {
                let socket = self.open_websocket(stream, "", &headers).await?;
                let acknowledges = self.options.ext_ack;
                let opened = polling::open_bayeux_socket(socket, &self.url, resume, acknowledges);
                let (socket, greeting) = Box::pin(opened).await?;
                (self.connection(ProtocolConnection::BayeuxSocket(Box::new(socket))), greeting)
            }
            Target::Bayeux => {
                let acknowledges = self.options.ext_ack;
                let opened = polling::open_bayeux(stream, &self.url, headers, resume, acknowledges);
                // Boxed because a task is as large as its largest state.
                let (polls, greeting) = Box::pin(opened).await?;
                (self.connection(ProtocolConnection::Bayeux(Box::new(polls))), greeting)
            }
        };
        connection.live.record_hello();
        greeting.pong_timeout = self.options.pong_timeout.unwrap_or(greeting.pong_timeout);
        greeting.reconnect_window = self.options.reconnect_window.unwrap_or(greeting.reconnect_window);
        greeting.poll_hold = self.options.poll_hold.unwrap_or(greeting.poll_hold);
        Ok((connection, greeting))
    }

    async fn open_websocket(
        &self,
        mut stream: TcpStream,
        query: &str,
        headers: &str,
    ) -> Result<WebSocket, ClientFailure> {
        let (host, path) = (self.options.url.authority(), self.options.url.path_with(query));
        let rest = upgrade(&mut stream, host, &path, headers).await?;
        Ok(WebSocket::new(stream, rest))
    }

    /// Opens an event stream. A server that accepts the last event id is assumed to continue after it.
    async fn open_event_stream(
        &self,
        stream: TcpStream,
        resume: Option<&Ticket>,
        headers: &str,
    ) -> OpenResult {
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        let (host, path) = (self.options.url.authority(), self.options.url.path_with(""));
        let stream = event_stream::request(stream, host, &path, headers, last_id.as_deref()).await?;
        let connection = self.connection(ProtocolConnection::Sse(Box::new(stream)));
        let recovered = last_id.is_some();
        let ticket = Ticket { last_id, ..Ticket::default() };
        Ok((connection, Greeting { ticket, recovered, ..Greeting::default() }))
    }

    fn connection(&self, wire: ProtocolConnection) -> ClientConnection {
        ClientConnection { wire, live: self.traffic.opened() }
    }
}
