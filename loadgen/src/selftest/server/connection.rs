//! One connection of a client, from its upgrade to its end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Hello, Reply, ReplyOutcome, ServerMessage, parse_command};
use encke_core::dialect::{
    Command, CommandError, CommandRequest, ErrorCode, StartPosition, Success, ping_payload,
};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_ACCEPT;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::state::ServerState;
use crate::selftest::behaviour::{Behaviour, Opening, PING_INTERVAL, PONG_TIMEOUT};

/// How long a client may take to end the connection after a Close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Epoch of all channels. It never changes on this server.
const EPOCH: &str = "e";

struct FaultyConnection {
    socket: WebSocketStream<TcpStream>,
    behaviour: Behaviour,
    state: Arc<ServerState>,
    session: usize,
    /// Position of the next message in the session's stream.
    position: usize,
    /// Whether a ping has been sent and not yet answered.
    is_pinged: bool,
    /// When to send a ping, or to close the connection if one has been sent.
    due: Option<Instant>,
}

/// Serves a client until its connection ends.
pub(super) async fn serve(
    mut stream: TcpStream,
    behaviour: Behaviour,
    state: Arc<ServerState>,
) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    if let Opening::Refuse(response) = behaviour.opening {
        let _ = stream.read(&mut [0; 2048]).await?;
        return Ok(stream.write_all(response.as_bytes()).await?);
    }
    let (mut socket, query) = accept(stream, behaviour.opening).await?;
    let resume = parse_resume(&query);
    match (behaviour.opening, &resume) {
        (Opening::Close(code), _) | (Opening::CloseIfResuming(code), Some(_)) => {
            return close(&mut socket, code).await;
        }
        _ => {}
    }
    state.seen.send_modify(|seen| seen.resumes.extend(resume.clone()));
    let resumed = resume.filter(|_| behaviour.remembers_sessions);
    let resumed = resumed.and_then(|(token, seq)| Some((session_of(&token)?, seq)));
    let (session, seq) = resumed.unwrap_or_else(|| (state.open_session(&behaviour), 0));
    let received = usize::try_from(seq).unwrap_or(usize::MAX);
    let position = received.saturating_add_signed(if resumed.is_some() { behaviour.resume_error } else { 0 });
    let mut connection =
        FaultyConnection { socket, behaviour, state, session, position, is_pinged: false, due: None };
    connection.greet(seq, resumed.is_some()).await?;
    connection.run().await
}

async fn accept(stream: TcpStream, opening: Opening) -> Result<(WebSocketStream<TcpStream>, String), Error> {
    let mut query = String::new();
    #[expect(clippy::result_large_err, reason = "the signature is that of the library's callback")]
    let read_query = |request: &Upgrade, mut response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        if opening == Opening::WrongAcceptKey {
            let accept = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
            response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    };
    let socket = accept_hdr_async(stream, read_query).await?;
    Ok((socket, query))
}

/// Returns the token and the seq from which a client wants to resume.
fn parse_resume(query: &str) -> Option<(String, u64)> {
    let (token, seq) = query.strip_prefix("resume=")?.split_once("&seq=")?;
    Some((token.to_owned(), seq.parse().ok()?))
}

/// Returns the session that the hello with this token belongs to.
fn session_of(token: &str) -> Option<usize> {
    token.strip_prefix("s_")?.strip_suffix(".secret")?.parse().ok()
}

impl FaultyConnection {
    async fn greet(&mut self, seq: u64, recovered: bool) -> Result<(), Error> {
        let Behaviour { hello_seq_error, hello_delay, bytes_for_hello, after_hello, .. } = self.behaviour;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let hello = ServerMessage::Hello(Hello {
            version: 1,
            session: format!("s_{}", self.session).into(),
            resume: format!("s_{}.secret", self.session).into(),
            recovered,
            seq: if recovered { seq + hello_seq_error } else { seq },
            ping_interval_ms: millis(PING_INTERVAL),
            pong_timeout_ms: millis(PONG_TIMEOUT),
            reconnect_window_ms: 60_000,
            positions: false,
        });
        sleep(hello_delay).await;
        match bytes_for_hello {
            Some(bytes) => self.send_bytes(bytes).await?,
            None => self.send(hello.to_json()).await?,
        }
        for object in after_hello {
            self.send((*object).to_owned()).await?;
        }
        self.state.seen.send_modify(|seen| seen.greeted += 1);
        Ok(())
    }

    async fn run(mut self) -> Result<(), Error> {
        if let Some(code) = self.behaviour.close_after_hello {
            return close(&mut self.socket, code).await;
        }
        let mut published = self.state.published.subscribe();
        published.mark_changed();
        self.plan_ping();
        loop {
            tokio::select! {
                received = self.socket.next() => match received.transpose()? {
                    None => return Ok(()),
                    Some(Message::Text(text)) => match self.execute(&text) {
                        Some(reply) => self.send(reply).await?,
                        None => return close(&mut self.socket, CloseCode::Normal.code()).await,
                    },
                    Some(Message::Pong(_)) => {
                        self.state.seen.send_modify(|seen| seen.pongs += 1);
                        if self.behaviour.accepts_pongs {
                            self.plan_ping();
                        }
                    }
                    Some(_) => {}
                },
                // `changed` cannot fail: the state owns the sender.
                _ = published.changed() => self.deliver().await?,
                () = sleep_until(self.due.unwrap_or_else(Instant::now)), if self.due.is_some() => {
                    if self.is_pinged {
                        return match self.behaviour.code_for_silence {
                            Some(code) => close(&mut self.socket, code).await,
                            None => Ok(()),
                        };
                    }
                    self.ping().await?;
                }
            }
        }
    }

    fn plan_ping(&mut self) {
        self.is_pinged = false;
        self.due = self.behaviour.ping_interval.map(|interval| Instant::now() + interval);
    }

    async fn ping(&mut self) -> Result<(), Error> {
        match self.behaviour.bytes_for_ping {
            Some(bytes) => self.send_bytes(bytes).await?,
            None => {
                let payload = ping_payload(self.position as u64).to_vec();
                self.socket.send(Message::Ping(payload.into())).await?;
            }
        }
        self.is_pinged = true;
        self.due = self.behaviour.pong_timeout.map(|timeout| Instant::now() + timeout);
        Ok(())
    }

    /// Sends all new objects. Postpones the ping: a client that reads messages is alive, and the ping would be
    /// queued behind them.
    async fn deliver(&mut self) -> Result<(), Error> {
        if self.state.stream_from(self.session, self.position).is_empty() {
            return Ok(());
        }
        sleep(self.behaviour.delivery_delay).await;
        let objects = self.state.stream_from(self.session, self.position);
        self.position += objects.len();
        for object in objects.into_iter().filter(|object| !object.is_empty()) {
            self.send(object).await?;
        }
        self.plan_ping();
        Ok(())
    }

    /// Executes a command. Returns the reply, or `None` if the command ends the session.
    fn execute(&mut self, text: &str) -> Option<String> {
        let CommandRequest { id, command } = parse_command(text);
        let outcome = match command {
            Ok(Command::Close) => return None,
            Ok(Command::Subscribe { channel, begin: StartPosition::Now }) => {
                self.state.subscribe(self.session, &channel);
                let (epoch, offset) = (EPOCH.into(), self.state.offset_of(&channel));
                let channel = channel.to_string().into();
                Ok(Success::Subscribed { channel, epoch, offset, recovered: None })
            }
            Ok(Command::Publish { channel, data, .. }) => {
                Ok(Success::Published { offset: self.state.publish(&channel, &data), epoch: EPOCH.into() })
            }
            Ok(_) => {
                let message = "not supported by this server".to_owned();
                Err(CommandError { code: ErrorCode::UnknownCommand, message })
            }
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            Ok(success) => ReplyOutcome::Ok(Cow::Owned(success)),
            Err(error) => ReplyOutcome::Error(Cow::Owned(error)),
        };
        Some(ServerMessage::Reply(Reply { id, outcome }).to_json())
    }

    async fn send(&mut self, text: String) -> Result<(), Error> {
        self.socket.send(Message::text(text)).await
    }

    /// Sends an invalid frame. Writes to the socket directly, because the library sends only valid frames.
    async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.socket.get_mut().write_all(bytes).await?)
    }
}

/// Sends a Close frame and waits until the client closes the connection, so that no reset overtakes the
/// frame.
async fn close(socket: &mut WebSocketStream<TcpStream>, code: u16) -> Result<(), Error> {
    socket.send(Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))).await?;
    let drain = async { while let Some(Ok(_)) = socket.next().await {} };
    // Disconnect a client that takes longer.
    let _ = timeout(CLOSE_TIMEOUT, drain).await;
    Ok(())
}
