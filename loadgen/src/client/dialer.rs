//! How connections to each kind of server are opened.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::token::Tokens;
use super::{Connection, Failure, Greeting, Ticket, TokenSource, Wire, encke, polling, socketio};
use crate::record::{Live, Traffic};
use crate::target::{Scheme, ServerUrl, Target};
use crate::transport::Sources;
use crate::transport::event_stream;
use crate::transport::websocket::{Socket, request_bytes, upgrade};

/// The server that is connected to, and how.
#[derive(Clone, Debug)]
pub struct DialOptions {
    pub url: ServerUrl,
    pub target: Target,
    /// How long connect, upgrade and hello may take together.
    pub timeout: Duration,
    /// Given by the user; overrides what the server announces.
    pub pong_timeout: Option<Duration>,
    pub reconnect_window: Option<Duration>,
    pub poll_hold: Option<Duration>,
    /// Bayeux: whether to acknowledge messages, by the extension for that.
    pub ext_ack: bool,
    /// What clients show to be let in.
    pub token: Option<TokenSource>,
}

/// Opens connections to one server.
#[derive(Debug)]
pub struct Dialer {
    options: DialOptions,
    /// The same, for the connections of long-polling.
    url: Rc<ServerUrl>,
    tokens: Arc<Tokens>,
    sources: Sources,
    traffic: Traffic,
}

type Opening = Result<(Connection, Greeting), Failure>;

impl Dialer {
    pub fn new(options: DialOptions, sources: Sources, traffic: &Traffic) -> Self {
        let tokens = Arc::new(Tokens::new(options.token.clone()));
        let url = Rc::new(options.url.clone());
        Self { options, url, tokens, sources, traffic: traffic.clone() }
    }

    /// Runs the command that writes tokens for the first time, if there is one.
    pub(crate) async fn check_token(&self) -> Result<(), Failure> {
        let headers = timeout(self.options.timeout, self.tokens.headers()).await;
        headers.map_err(|_| Failure::Token("it takes too long".to_owned()))?.map(drop)
    }

    /// What the server says to a new client, which leaves at once and is not counted.
    pub(crate) async fn ask_for_hello(&self) -> Result<Greeting, Failure> {
        let (options, url, sources) = (self.options.clone(), self.url.clone(), self.sources.clone());
        let asking = Self { options, url, tokens: self.tokens.clone(), sources, traffic: Traffic::default() };
        let (connection, hello) = asking.open(None).await?;
        connection.close().await;
        Ok(hello)
    }

    /// The server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.sources.server()
    }

    /// What is sent to open a connection, where that is a WebSocket.
    pub(crate) async fn opening_bytes(&self, resume: Option<&Ticket>) -> usize {
        let headers = self.tokens.headers().await.unwrap_or_default();
        let query = match self.options.target {
            Target::Encke => encke::query(resume),
            Target::Socketio => socketio::QUERY.to_owned(),
            Target::Plain | Target::Sse | Target::Poll | Target::Bayeux => String::new(),
        };
        request_bytes(self.options.url.authority(), &self.options.url.path_with(&query), &headers)
    }

    /// Connects without an upgrade or a request.
    pub(crate) async fn connect(&self) -> Result<(TcpStream, Live), Failure> {
        let stream = timeout(self.options.timeout, self.sources.connect(None))
            .await
            .map_err(|_| Failure::Timeout)??;
        Ok((stream, self.traffic.opened()))
    }

    pub async fn open(&self, resume: Option<&Ticket>) -> Opening {
        self.open_with(resume, None).await
    }

    /// The same, with this much that the kernel takes in before it is read.
    pub(crate) async fn open_with(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> Opening {
        let opening = self.open_unbounded(resume, receive_buffer_bytes);
        timeout(self.options.timeout, opening).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn open_unbounded(&self, resume: Option<&Ticket>, receive_buffer_bytes: Option<u32>) -> Opening {
        let headers = self.tokens.headers().await?;
        let stream = self.sources.connect(receive_buffer_bytes).await?;
        let (connection, mut greeting) = match self.options.target {
            Target::Encke => {
                let socket = self.upgraded(stream, &encke::query(resume), &headers).await?;
                let mut connection = self.connection(Wire::Encke(socket));
                let greeting = encke::greeting(&mut connection).await?;
                (connection, greeting)
            }
            Target::Plain => {
                let socket = self.upgraded(stream, "", &headers).await?;
                (self.connection(Wire::Plain(socket)), Greeting::default())
            }
            Target::Sse => self.requested(stream, resume, &headers).await?,
            Target::Socketio => {
                let socket = self.upgraded(stream, socketio::QUERY, &headers).await?;
                let mut connection = self.connection(Wire::Socketio(socket));
                let greeting = socketio::greeting(&mut connection, resume).await?;
                (connection, greeting)
            }
            Target::Poll => {
                let (polls, greeting) = polling::open_json(stream, &self.url, headers, resume).await?;
                (self.connection(Wire::Poll(Box::new(polls))), greeting)
            }
            Target::Bayeux if self.options.url.scheme() == Scheme::Ws => {
                let socket = self.upgraded(stream, "", &headers).await?;
                let acknowledges = self.options.ext_ack;
                let opened = polling::open_bayeux_socket(socket, &self.url, resume, acknowledges);
                let (socket, greeting) = Box::pin(opened).await?;
                (self.connection(Wire::BayeuxSocket(Box::new(socket))), greeting)
            }
            Target::Bayeux => {
                let acknowledges = self.options.ext_ack;
                let opened = polling::open_bayeux(stream, &self.url, headers, resume, acknowledges);
                // Boxed, for a task is as large as what it may hold at once.
                let (polls, greeting) = Box::pin(opened).await?;
                (self.connection(Wire::Bayeux(Box::new(polls))), greeting)
            }
        };
        connection.live.greeted();
        greeting.pong_timeout = self.options.pong_timeout.unwrap_or(greeting.pong_timeout);
        greeting.reconnect_window = self.options.reconnect_window.unwrap_or(greeting.reconnect_window);
        greeting.poll_hold = self.options.poll_hold.unwrap_or(greeting.poll_hold);
        Ok((connection, greeting))
    }

    async fn upgraded(&self, mut stream: TcpStream, query: &str, headers: &str) -> Result<Socket, Failure> {
        let (host, path) = (self.options.url.authority(), self.options.url.path_with(query));
        let rest = upgrade(&mut stream, host, &path, headers).await?;
        Ok(Socket::new(stream, rest))
    }

    /// A server that accepts the id of the last event is taken to continue after it.
    async fn requested(&self, stream: TcpStream, resume: Option<&Ticket>, headers: &str) -> Opening {
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        let (host, path) = (self.options.url.authority(), self.options.url.path_with(""));
        let stream = event_stream::request(stream, host, &path, headers, last_id.as_deref()).await?;
        let connection = self.connection(Wire::Sse(Box::new(stream)));
        let recovered = last_id.is_some();
        let ticket = Ticket { last_id, ..Ticket::default() };
        Ok((connection, Greeting { ticket, recovered, ..Greeting::default() }))
    }

    fn connection(&self, wire: Wire) -> Connection {
        Connection { wire, live: self.traffic.opened() }
    }
}
