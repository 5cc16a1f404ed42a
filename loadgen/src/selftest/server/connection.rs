//! One connection of a client, from its upgrade to its end.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Reply, ReplyOutcome, ServerMessage, parse_command};
use encke_core::dialect::{
    Command, CommandError, CommandRequest, ErrorCode, StartPosition, Success, ping_payload,
};
use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_ACCEPT;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::session::FaultySession;
use super::state::{
    AttachedSession, HANDSHAKE_TIMEOUT, PING_INTERVAL, PONG_TIMEOUT, RECONNECT_WINDOW, ResumeRequest,
    ServerState, WRITE_TIMEOUT, hello,
};
use crate::selftest::fault::Fault;
use crate::selftest::invalid_frame::InvalidFrame;

/// How long a client may take to end the connection after a Close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a client until its connection ends, then keeps its session for the reconnect window.
pub(super) async fn serve(stream: TcpStream, world: Rc<ServerState>) {
    let limit = world.fault.handshake_timeout(HANDSHAKE_TIMEOUT);
    let Ok(Ok((mut socket, query))) = timeout(limit, accept(stream, world.fault)).await else { return };
    let resume = ResumeRequest::parse(&query);
    if resume.is_some() && !world.fault.allows_resume() {
        // The result is ignored: the client may have disconnected already.
        return drop(close(&mut socket, CloseCode::Unauthorized).await);
    }
    let attached = world.attach(resume);
    let session = attached.session.clone();
    let mut replaced = session.connect();
    let connection = FaultyConnection {
        socket,
        position: attached.position,
        session: session.clone(),
        state: world.clone(),
    };
    // An error means that the client disconnected without a Close frame.
    let end = connection.run(&attached, replaced.clone()).await.unwrap_or(EndScope::Connection);
    let is_over = match end {
        EndScope::Session => true,
        EndScope::Connection => {
            timeout(world.fault.window(RECONNECT_WINDOW), replaced.changed()).await.is_err()
        }
    };
    if is_over {
        world.end(&session);
    }
}

/// Scope of an end: only the connection, or the session too.
enum EndScope {
    Connection,
    Session,
}

type ServerStream = WebSocketStream<TcpStream>;

async fn accept(stream: TcpStream, fault: Fault) -> Result<(ServerStream, String), Error> {
    stream.set_nodelay(true)?;
    let mut query = String::new();
    #[expect(clippy::result_large_err, reason = "the signature is that of the library's callback")]
    let read_query = |request: &Upgrade, mut response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        if !fault.sends_correct_accept_key() {
            let accept = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
            response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    };
    let socket = accept_hdr_async(stream, read_query).await?;
    Ok((socket, query))
}

struct FaultyConnection {
    socket: ServerStream,
    session: Rc<FaultySession>,
    state: Rc<ServerState>,
    /// Position of the next message in the session's stream.
    position: usize,
}

/// State of the pings on a connection.
#[derive(Clone, Copy)]
struct PingTimer {
    /// Whether a ping has been sent and not yet answered.
    is_outstanding: bool,
    due: Option<Instant>,
}

impl FaultyConnection {
    async fn run(
        mut self,
        attached: &AttachedSession,
        mut replaced: watch::Receiver<u64>,
    ) -> Result<EndScope, Error> {
        let fault = self.state.fault;
        sleep(fault.hello_delay()).await;
        match fault.frame_for_hello() {
            Some(frame) => self.send_invalid(frame).await?,
            None => self.send(&ServerMessage::Hello(hello(attached))).await?,
        }
        let mut news = self.session.stream_changes();
        let mut heart = self.next_ping();
        loop {
            tokio::select! {
                received = self.socket.next() => match received.transpose()? {
                    None => return Ok(EndScope::Connection),
                    Some(Message::Text(text)) => {
                        if self.execute(&text).await? {
                            close(&mut self.socket, CloseCode::Normal).await?;
                            return Ok(EndScope::Session);
                        }
                    }
                    Some(Message::Pong(_)) if fault.accepts_pongs() => heart = self.next_ping(),
                    Some(_) => {}
                },
                // `changed` cannot fail: the session owns the sender.
                _ = news.changed() => {
                    sleep(fault.delivery_delay()).await;
                    if !self.deliver().await? {
                        close(&mut self.socket, fault.code_for_slow()).await?;
                        return Ok(EndScope::Connection);
                    }
                    // Postpone the ping: a client that reads messages is alive, and the ping would be queued
                    // behind them.
                    heart = self.next_ping();
                }
                () = sleep_until(heart.due.unwrap_or_else(Instant::now)), if heart.due.is_some() => {
                    if heart.is_outstanding {
                        self.close_silent().await?;
                        return Ok(EndScope::Connection);
                    }
                    heart = self.ping().await?;
                }
                _ = replaced.changed() => if let Some(code) = fault.code_for_replaced() {
                    close(&mut self.socket, code).await?;
                    return Ok(EndScope::Connection);
                }
            }
        }
    }

    fn next_ping(&self) -> PingTimer {
        let interval = self.state.fault.ping_interval(PING_INTERVAL);
        PingTimer { is_outstanding: false, due: interval.map(|interval| Instant::now() + interval) }
    }

    async fn ping(&mut self) -> Result<PingTimer, Error> {
        let seq = self.position as u64;
        match self.state.fault.frame_for_ping() {
            Some(frame) => self.send_invalid(frame).await?,
            None => self.socket.send(Message::Ping(ping_payload(seq).to_vec().into())).await?,
        }
        let timeout = self.state.fault.pong_timeout(PONG_TIMEOUT);
        Ok(PingTimer { is_outstanding: true, due: timeout.map(|timeout| Instant::now() + timeout) })
    }

    async fn close_silent(&mut self) -> Result<(), Error> {
        match self.state.fault.code_for_silence() {
            Some(code) => close(&mut self.socket, code).await,
            None => Ok(()),
        }
    }

    /// Sends all new objects. Returns false if the client does not read in time.
    async fn deliver(&mut self) -> Result<bool, Error> {
        let write_timeout = self.state.fault.write_timeout(WRITE_TIMEOUT);
        for object in self.session.stream_from(self.position) {
            let sent = self.socket.send(Message::text(object));
            match write_timeout {
                Some(limit) => match timeout(limit, sent).await {
                    Ok(sent) => sent?,
                    Err(_) => return Ok(false),
                },
                None => sent.await?,
            }
            self.position += 1;
        }
        Ok(true)
    }

    /// Sends an invalid frame. Writes to the socket directly, because the library sends only valid frames.
    async fn send_invalid(&mut self, frame: InvalidFrame) -> Result<(), Error> {
        Ok(self.socket.get_mut().write_all(frame.bytes()).await?)
    }

    /// Executes a command. Returns whether the command ends the session.
    async fn execute(&mut self, text: &str) -> Result<bool, Error> {
        let CommandRequest { id, command } = parse_command(text);
        let outcome = match command {
            Ok(Command::Close) => return Ok(true),
            Ok(Command::Ack { .. } | Command::Pong { .. }) => return Ok(false),
            Ok(command) => self.outcome_of(&command),
            Err(error) => refusal(error.code, error.message),
        };
        self.send(&ServerMessage::Reply(Reply { id, outcome })).await?;
        Ok(false)
    }

    fn outcome_of(&self, command: &Command<'_>) -> ReplyOutcome<'static> {
        ReplyOutcome::Ok(Cow::Owned(match command {
            Command::Subscribe { channel, begin: StartPosition::Now } => {
                self.session.subscribe(channel);
                let offset = self.state.offset_of(channel);
                Success::Subscribed {
                    channel: channel.to_string().into(),
                    epoch: EPOCH.into(),
                    offset,
                    recovered: None,
                }
            }
            Command::Unsubscribe { channel } => {
                self.session.unsubscribe(channel);
                Success::Done
            }
            Command::Publish { channel, data, .. } => match self.state.publish(channel, data) {
                Some(offset) => Success::Published { offset, epoch: EPOCH.into() },
                None => return refusal(ErrorCode::Limit, "the channel is full".to_owned()),
            },
            _ => return refusal(ErrorCode::UnknownCommand, "not supported by this server".to_owned()),
        }))
    }

    async fn send(&mut self, message: &ServerMessage<'_>) -> Result<(), Error> {
        self.socket.send(Message::text(message.to_json())).await
    }
}

/// Epoch of all channels. It never changes on this server.
const EPOCH: &str = "e";

fn refusal(code: ErrorCode, message: String) -> ReplyOutcome<'static> {
    ReplyOutcome::Error(Cow::Owned(CommandError { code, message }))
}

/// Sends a Close frame and waits until the client closes the connection, so that no reset overtakes the
/// frame.
async fn close(socket: &mut ServerStream, code: CloseCode) -> Result<(), Error> {
    let frame = CloseFrame { code: code.code().into(), reason: code.reason().into() };
    socket.send(Message::Close(Some(frame))).await?;
    let drain = async { while let Some(Ok(_)) = socket.next().await {} };
    // Disconnect a client that takes longer.
    let _ = timeout(CLOSE_TIMEOUT, drain).await;
    Ok(())
}
