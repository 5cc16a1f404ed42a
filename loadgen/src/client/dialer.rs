//! How connections to each kind of server are opened.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Connection, Greeting, Ticket, Wire, encke, socketio};
use crate::args::Server;
use crate::event_stream;
use crate::failure::Failure;
use crate::record::{Live, Traffic};
use crate::source::Sources;
use crate::target::{ServerUrl, Target};
use crate::websocket::{Socket, upgrade};

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    url: ServerUrl,
    target: Target,
    sources: Sources,
    /// How long connect, upgrade and hello may take together.
    timeout: Duration,
    /// What the user says of the server, which goes before what it says itself.
    pong_timeout: Option<Duration>,
    reconnect_window: Option<Duration>,
    traffic: Traffic,
}

type Opening = Result<(Connection, Greeting), Failure>;

impl Dialer {
    pub(crate) fn new(server: &Server, sources: Sources, traffic: &Traffic) -> Self {
        Self {
            url: server.url.clone(),
            target: server.target,
            sources,
            timeout: server.connect_timeout,
            pong_timeout: server.pong_timeout,
            reconnect_window: server.reconnect_window,
            traffic: traffic.clone(),
        }
    }

    /// Connects, and that is all: no upgrade, and no request.
    pub(crate) async fn connect(&self) -> Result<(TcpStream, Live), Failure> {
        let stream =
            timeout(self.timeout, self.sources.connect(None)).await.map_err(|_| Failure::Timeout)??;
        Ok((stream, self.traffic.opened()))
    }

    pub(crate) async fn open(&self, resume: Option<&Ticket>) -> Opening {
        self.open_with(resume, None).await
    }

    /// The same, with this much that the kernel takes in before it is read.
    pub(crate) async fn open_with(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> Opening {
        let opening = self.open_unbounded(resume, receive_buffer_bytes);
        timeout(self.timeout, opening).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn open_unbounded(&self, resume: Option<&Ticket>, receive_buffer_bytes: Option<u32>) -> Opening {
        let stream = self.sources.connect(receive_buffer_bytes).await?;
        let (connection, mut greeting) = match self.target {
            Target::Encke => {
                let socket = self.upgraded(stream, &encke::query(resume)).await?;
                let mut connection = self.connection(Wire::Encke(socket));
                let greeting = encke::greeting(&mut connection).await?;
                (connection, greeting)
            }
            Target::Plain => {
                let socket = self.upgraded(stream, "").await?;
                (self.connection(Wire::Plain(socket)), Greeting::default())
            }
            Target::Sse => self.requested(stream, resume).await?,
            Target::Socketio => {
                let socket = self.upgraded(stream, socketio::QUERY).await?;
                let mut connection = self.connection(Wire::Socketio(socket));
                let greeting = socketio::greeting(&mut connection, resume).await?;
                (connection, greeting)
            }
        };
        connection.live.greeted();
        greeting.pong_timeout = self.pong_timeout.unwrap_or(greeting.pong_timeout);
        greeting.reconnect_window = self.reconnect_window.unwrap_or(greeting.reconnect_window);
        Ok((connection, greeting))
    }

    async fn upgraded(&self, mut stream: TcpStream, query: &str) -> Result<Socket, Failure> {
        let rest = upgrade(&mut stream, self.url.authority(), &self.url.path_with(query)).await?;
        Ok(Socket::new(stream, rest))
    }

    /// A server that answers the id of the last event with a stream goes on after it, as far as anyone can tell.
    async fn requested(&self, stream: TcpStream, resume: Option<&Ticket>) -> Opening {
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        let (host, path) = (self.url.authority(), self.url.path_with(""));
        let stream = event_stream::request(stream, host, &path, last_id.as_deref()).await?;
        let connection = self.connection(Wire::Sse(Box::new(stream)));
        let recovered = last_id.is_some();
        let ticket = Ticket { last_id, ..Ticket::default() };
        Ok((connection, Greeting { ticket, recovered, ..Greeting::default() }))
    }

    fn connection(&self, wire: Wire) -> Connection {
        Connection { wire, live: self.traffic.opened() }
    }
}
