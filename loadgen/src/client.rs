//! One client connection: connect, upgrade, hello, then events until the end.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use encke_core::dialect::json::ServerMessage;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::record::{Live, Traffic};
use crate::source::Sources;
use crate::target::Target;
use crate::websocket::{End, Incoming, Socket, upgrade};

/// RFC 6455, section 7.4.1: the purpose of the connection is fulfilled.
const NORMAL: u16 = 1000;

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
    /// How long a lost connection can be resumed.
    pub(crate) reconnect_window: Duration,
}

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A ping arrived, and was answered unless the connection does not.
    Ping(&'a [u8]),
    Text(&'a str),
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
    /// Connects, and that is all: no upgrade.
    pub(crate) async fn connect(&self) -> Result<(TcpStream, Live), Failure> {
        let stream =
            timeout(self.timeout, self.sources.connect(None)).await.map_err(|_| Failure::Timeout)??;
        Ok((stream, self.traffic.opened()))
    }

    pub(crate) async fn open(&self, resume: Option<&Ticket>) -> Result<(Connection, Greeting), Failure> {
        self.open_with(resume, None).await
    }

    /// The same, with this much that the kernel takes in before it is read.
    pub(crate) async fn open_with(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> Result<(Connection, Greeting), Failure> {
        let opening = self.open_unbounded(resume, receive_buffer_bytes);
        timeout(self.timeout, opening).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn open_unbounded(
        &self,
        resume: Option<&Ticket>,
        receive_buffer_bytes: Option<u32>,
    ) -> Result<(Connection, Greeting), Failure> {
        let mut stream = self.sources.connect(receive_buffer_bytes).await?;
        let rest = upgrade(&mut stream, self.target.authority(), &self.target.path(resume)).await?;
        let mut connection = Connection { socket: Socket::new(stream, rest), live: self.traffic.opened() };
        let greeting = connection.greeting().await?;
        connection.live.greeted();
        Ok((connection, greeting))
    }
}

/// A connection that has been upgraded. Dropping it drops the socket, without a Close frame.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    live: Live,
}

impl Connection {
    /// From now on nothing is sent any more: no pongs, no answer to a Close frame.
    pub(crate) fn mute(&mut self) {
        self.socket.mute();
    }

    /// From now on pings wait for [`Self::pong`].
    pub(crate) fn stop_answering(&mut self) {
        self.socket.stop_answering();
    }

    /// Answers a ping. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn pong(&mut self, payload: &[u8]) {
        let _ = self.socket.send_pong(payload).await;
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        self.socket.reset();
    }

    /// Ends the connection with a Close frame, which says that all was well.
    pub(crate) async fn close(mut self) {
        let _ = self.socket.send_close(NORMAL).await;
    }

    /// From now on no more than this is read in all, unless more is allowed.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        self.socket.allow_reading(bytes);
    }

    /// Hands every event to `on_event` until it breaks or the connection ends. May be dropped and called again at
    /// any time.
    pub(crate) fn each<T>(
        &mut self,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> impl Future<Output = Result<T, End>> {
        // One closure with one pointer, for what it holds is in the task of every idle connection.
        poll_fn(move |context| {
            let Self { socket, live } = &mut *self;
            let polled = socket.poll_each(context, &mut |incoming| {
                let event = match &incoming {
                    Incoming::Ping(payload) => Event::Ping(payload),
                    Incoming::Text(text) => Event::Text(text),
                    Incoming::Binary(_) | Incoming::Pong(_) | Incoming::Close(_) => {
                        return ControlFlow::Continue(());
                    }
                };
                live.saw(event);
                on_event(event)
            });
            if let Poll::Ready(Err(end)) = polled {
                live.ended(end);
            }
            polled
        })
    }

    /// Sends a command. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn send(&mut self, command: &str) {
        let _ = self.socket.send_text(command).await;
    }

    async fn greeting(&mut self) -> Result<Greeting, Failure> {
        let first = self.each(|event| match event {
            Event::Ping(_) => ControlFlow::Continue(()),
            Event::Text(text) => ControlFlow::Break(read_hello(text)),
        });
        first.await.unwrap_or_else(|end| Err(Failure::ClosedBeforeHello(end)))
    }
}

fn read_hello(text: &str) -> Result<Greeting, Failure> {
    match serde_json::from_str(text) {
        Ok(ServerMessage::Hello(hello)) => Ok(Greeting {
            ticket: Ticket { token: hello.resume.into(), seq: hello.seq },
            recovered: hello.recovered,
            pong_timeout: Duration::from_millis(hello.pong_timeout_ms),
            reconnect_window: Duration::from_millis(hello.reconnect_window_ms),
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
