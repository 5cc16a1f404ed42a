//! One client connection: connect, upgrade, hello, then frames until the end.

use std::time::Duration;

use encke_core::dialect::json::ServerMessage;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::failure::Failure;
use crate::record::{Live, Traffic};
use crate::source::Sources;
use crate::swallow::Swallow;
use crate::target::Target;
use crate::upgrade::upgrade;

/// Close codes that never travel: RFC 6455, section 7.4.1, has them for a Close frame without a code, and for an
/// end without a Close frame.
pub(crate) const NO_CODE: u16 = 1005;
pub(crate) const NO_CLOSE_FRAME: u16 = 1006;
/// What this client calls an end for which the server's bytes were to blame.
const BAD_FRAME: u16 = 1002;

/// The read buffer is filled with zeros before every read and stays resident, so it is what a connection costs.
const READ_BUFFER_BYTES: usize = 256;
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// What a client returns with to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) token: Box<str>,
    pub(crate) seq: u64,
}

/// What the server's hello said.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) ticket: Ticket,
    pub(crate) recovered: bool,
    pub(crate) pong_timeout: Duration,
}

/// What happens on a connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// A ping arrived; unless the connection is mute, its pong leaves when the next event is asked for.
    Ping,
    Text(Utf8Bytes),
    /// The end, by this code.
    Closed(u16),
}

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) target: Target,
    pub(crate) sources: Sources,
    /// How long connect, upgrade and hello may take together.
    pub(crate) timeout: Duration,
    pub(crate) traffic: Traffic,
}

impl Dialer {
    pub(crate) async fn open(&self, resume: Option<&Ticket>) -> Result<(Connection, Greeting), Failure> {
        timeout(self.timeout, self.open_unbounded(resume)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn open_unbounded(&self, resume: Option<&Ticket>) -> Result<(Connection, Greeting), Failure> {
        let mut stream = self.sources.connect().await?;
        let rest = upgrade(&mut stream, &self.target.request(resume)).await?;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(MAX_MESSAGE_BYTES)
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let socket =
            WebSocketStream::from_partially_read(Swallow::new(stream), rest, Role::Client, Some(config))
                .await;
        let mut connection = Connection { socket, live: self.traffic.opened() };
        let greeting = connection.greeting().await?;
        connection.live.greeted();
        Ok((connection, greeting))
    }
}

/// A connection that has been upgraded. Dropping it drops the socket, without a Close frame.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: WebSocketStream<Swallow<TcpStream>>,
    live: Live,
}

impl Connection {
    /// From now on nothing is sent any more: no pongs, no answer to a Close frame.
    pub(crate) fn mute(&mut self) {
        self.socket.get_mut().start();
    }

    /// Waits for what happens next. After [`Event::Closed`] nothing does.
    pub(crate) async fn next(&mut self) -> Event {
        let event = loop {
            break match self.socket.next().await {
                Some(Ok(Message::Ping(_))) => Event::Ping,
                Some(Ok(Message::Text(text))) => Event::Text(text),
                Some(Ok(Message::Close(frame))) => Event::Closed(frame.map_or(NO_CODE, |it| it.code.into())),
                Some(Ok(Message::Binary(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Err(error)) => Event::Closed(code_of(&error)),
                None => Event::Closed(NO_CLOSE_FRAME),
            };
        };
        self.live.saw(&event);
        event
    }

    /// Sends a command. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn send(&mut self, command: String) {
        let _ = self.socket.send(Message::text(command)).await;
    }

    async fn greeting(&mut self) -> Result<Greeting, Failure> {
        loop {
            match self.next().await {
                Event::Ping => {}
                Event::Text(text) => return read_hello(&text),
                Event::Closed(code) => return Err(Failure::ClosedBeforeHello(code)),
            }
        }
    }
}

fn code_of(error: &tungstenite::Error) -> u16 {
    use tungstenite::Error::{AlreadyClosed, ConnectionClosed, Io, Protocol};
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    match error {
        Io(_) | ConnectionClosed | AlreadyClosed | Protocol(ResetWithoutClosingHandshake) => NO_CLOSE_FRAME,
        _ => BAD_FRAME,
    }
}

fn read_hello(text: &str) -> Result<Greeting, Failure> {
    match serde_json::from_str(text) {
        Ok(ServerMessage::Hello(hello)) => Ok(Greeting {
            ticket: Ticket { token: hello.resume.into(), seq: hello.seq },
            recovered: hello.recovered,
            pong_timeout: Duration::from_millis(hello.pong_timeout_ms),
        }),
        Ok(_) | Err(_) => Err(Failure::NoHello),
    }
}

/// The `seq` of a message that has one. Replies and whatever this client has never heard of have none.
pub(crate) fn seq_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Object {
        Message(Numbered),
        Gap(Numbered),
    }
    match serde_json::from_str(text).ok()? {
        Object::Message(Numbered { seq }) | Object::Gap(Numbered { seq }) => Some(seq),
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
        assert_eq!(greeting.ticket, Ticket { token: "s_1.x".into(), seq: 7 });
        assert!(greeting.recovered);
        assert_eq!(greeting.pong_timeout, Duration::from_secs(10));
        assert!(read_hello(r#"{"goaway":{"reason":"draining","retry_ms":1}}"#).is_err());
    }

    #[test]
    fn messages_and_gaps_have_a_seq() {
        assert_eq!(
            seq_of(r#"{"message":{"seq":57,"channel":"news","offset":42,"data":{"seq":1}}}"#),
            Some(57)
        );
        assert_eq!(seq_of(r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#), Some(58));
        assert_eq!(seq_of(r#"{"reply":{"id":7,"ok":{}}}"#), None);
        assert_eq!(seq_of(r#"{"news_of_next_year":{"seq":1}}"#), None);
        assert_eq!(seq_of("not JSON"), None);
    }
}
