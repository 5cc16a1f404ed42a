//! How connections to each kind of server are opened.

use std::ops::ControlFlow;
use std::time::Duration;

use encke_core::dialect::json::ServerMessage;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Connection, Event, Greeting, Ticket, Wire, socketio};
use crate::event_stream::{EventStream, Framing};
use crate::failure::Failure;
use crate::http_head::{NoHead, ResponseHead};
use crate::source::Sources;
use crate::target::{ServerUrl, Target};
use crate::websocket::{BadUpgrade, Socket, upgrade};

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) url: ServerUrl,
    pub(crate) target: Target,
    pub(crate) sources: Sources,
    /// How long connect, upgrade and hello may take together.
    pub(crate) timeout: Duration,
    /// What the user says of the server, which goes before what it says itself.
    pub(crate) pong_timeout: Option<Duration>,
    pub(crate) reconnect_window: Option<Duration>,
}

type Opening = Result<(Connection, Greeting), Failure>;

impl Dialer {
    pub(crate) async fn open(&self, resume: Option<&Ticket>) -> Opening {
        self.open_with(resume, None).await
    }

    /// The same, with this much that the kernel takes in before it is read.
    pub(crate) async fn open_with(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> Opening {
        let opening = async {
            let stream = self.sources.connect(receive_buffer_bytes).await?;
            match self.target {
                Target::Encke => self.open_encke(stream, resume).await,
                Target::Plain => self.open_plain(stream).await,
                Target::Sse => self.open_sse(stream, resume).await,
                Target::Socketio => self.open_socketio(stream, resume).await,
            }
        };
        let opened = timeout(self.timeout, opening).await.unwrap_or(Err(Failure::Timeout));
        opened.map(|(connection, greeting)| (connection, self.corrected(greeting)))
    }

    fn corrected(&self, mut greeting: Greeting) -> Greeting {
        greeting.pong_timeout = self.pong_timeout.unwrap_or(greeting.pong_timeout);
        greeting.reconnect_window = self.reconnect_window.unwrap_or(greeting.reconnect_window);
        greeting
    }

    async fn open_encke(&self, stream: TcpStream, resume: Option<&Ticket>) -> Opening {
        let query = resume.map(|ticket| format!("resume={}&seq={}", ticket.token, ticket.seq));
        let mut connection = self.upgraded(stream, &query.unwrap_or_default()).await?;
        let hello = connection.each(|event| match event {
            Event::Text(text) => ControlFlow::Break(read_hello(text)),
            _ => ControlFlow::Continue(()),
        });
        let greeting = hello.await.unwrap_or_else(|end| Err(Failure::ClosedBeforeHello(end)))?;
        Ok((connection, greeting))
    }

    async fn open_plain(&self, stream: TcpStream) -> Opening {
        Ok((self.upgraded(stream, "").await?, Greeting::default()))
    }

    async fn open_socketio(&self, stream: TcpStream, resume: Option<&Ticket>) -> Opening {
        let mut connection = self.upgraded(stream, "EIO=4&transport=websocket").await?;
        let greeting = socketio::connect(&mut connection, resume).await?;
        Ok((connection, greeting))
    }

    async fn upgraded(&self, mut stream: TcpStream, query: &str) -> Result<Connection, Failure> {
        let rest = upgrade(&mut stream, self.url.authority(), &self.url.path_with(query)).await?;
        Ok(Connection { wire: Wire::WebSocket(Socket::new(stream, rest)), target: self.target })
    }

    /// A server that answers the last event's id with a stream goes on after it, as far as anyone can tell.
    async fn open_sse(&self, mut stream: TcpStream, resume: Option<&Ticket>) -> Opening {
        let mut request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nCache-Control: no-store\r\n",
            self.url.path_with(""),
            self.url.authority()
        );
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        if let Some(id) = &last_id {
            request.push_str(&format!("Last-Event-ID: {id}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = ResponseHead::read(&mut stream).await.map_err(|error| match error {
            NoHead::Io(error) => Failure::Connect(error),
            NoHead::NotHttp(error) => Failure::Upgrade(BadUpgrade::NotHttp(error)),
            NoHead::TooLong => Failure::Upgrade(BadUpgrade::TooLong),
        })?;
        if head.status != 200 {
            return Err(Failure::Refused(head.status));
        }
        let content_type = head.header("content-type").unwrap_or_default();
        if !content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("text/event-stream")
        {
            return Err(Failure::NoEventStream);
        }
        let framing = Framing::of(&head);
        let stream = Box::new(EventStream::new(stream, framing, head.rest));
        let ticket = Ticket { last_id: last_id.clone(), ..Ticket::default() };
        let greeting = Greeting { ticket, recovered: resume.is_some(), ..Greeting::default() };
        Ok((Connection { wire: Wire::Events(stream), target: Target::Sse }, greeting))
    }
}

fn read_hello(text: &str) -> Result<Greeting, Failure> {
    match serde_json::from_str(text) {
        Ok(ServerMessage::Hello(hello)) => Ok(Greeting {
            ticket: Ticket { token: hello.resume.into(), seq: hello.seq, last_id: None },
            recovered: hello.recovered,
            pong_timeout: Duration::from_millis(hello.pong_timeout_ms),
            reconnect_window: Duration::from_millis(hello.reconnect_window_ms),
        }),
        Ok(_) | Err(_) => Err(Failure::NoHello),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_a_greeting_whatever_else_it_says() {
        let text = r#"{"hello":{"version":1,"session":"s_1","resume":"s_1.x","recovered":true,"seq":7,"new":[],
                       "ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":120000}}"#;
        let greeting = read_hello(text).expect("this is a hello");
        assert_eq!((&*greeting.ticket.token, greeting.ticket.seq), ("s_1.x", 7));
        assert!(greeting.recovered);
        assert_eq!(greeting.pong_timeout, Duration::from_secs(10));
        assert!(read_hello(r#"{"goaway":{"reason":"draining","retry_ms":1}}"#).is_err());
    }
}
