//! One connection of a client, from its upgrade to its end.

use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Reply, ReplyData, ReplyError, ReplyOutcome, ServerMessage, parse_command};
use encke_core::dialect::{Command, CommandRequest, ErrorCode, StartPosition, ping_payload};
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

use super::session::Session;
use super::world::{
    Attached, HANDSHAKE_TIMEOUT, PING_INTERVAL, PONG_TIMEOUT, RECONNECT_WINDOW, Resume, WRITE_TIMEOUT, World,
    hello,
};
use crate::selftest::bad_frame::BadFrame;
use crate::selftest::fault::Fault;

/// Time that a client has to end the connection after a Close frame.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a client until its connection ends, then keeps its session for the reconnect window.
pub(super) async fn serve(stream: TcpStream, world: Rc<World>) {
    let limit = world.fault.handshake_timeout(HANDSHAKE_TIMEOUT);
    let Ok(Ok((mut socket, query))) = timeout(limit, accept(stream, world.fault)).await else { return };
    let resume = Resume::parse(&query);
    if resume.is_some() && !world.fault.allows_resume() {
        // The client may have disconnected already.
        return drop(close(&mut socket, CloseCode::Unauthorized).await);
    }
    let attached = world.attach(resume);
    let session = attached.session.clone();
    let mut replaced = session.connect();
    let connection =
        Connection { socket, place: attached.place, session: session.clone(), world: world.clone() };
    // An error means that the client disconnected without a Close frame.
    let end = connection.run(&attached, replaced.clone()).await.unwrap_or(End::Connection);
    let is_over = match end {
        End::Session => true,
        End::Connection => timeout(world.fault.window(RECONNECT_WINDOW), replaced.changed()).await.is_err(),
    };
    if is_over {
        world.end(&session);
    }
}

/// What a client has ended.
enum End {
    Connection,
    Session,
}

type Socket = WebSocketStream<TcpStream>;

async fn accept(stream: TcpStream, fault: Fault) -> Result<(Socket, String), Error> {
    stream.set_nodelay(true)?;
    let mut query = String::new();
    #[expect(clippy::result_large_err, reason = "the signature is that of the library's callback")]
    let read_query = |request: &Upgrade, mut response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        if !fault.upgrades_well() {
            let accept = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
            response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    };
    let socket = accept_hdr_async(stream, read_query).await?;
    Ok((socket, query))
}

struct Connection {
    socket: Socket,
    session: Rc<Session>,
    world: Rc<World>,
    /// Position of the next message in the session's stream.
    place: usize,
}

/// State of the pings on a connection.
#[derive(Clone, Copy)]
struct Heart {
    /// Whether a ping is outstanding.
    asked: bool,
    due: Option<Instant>,
}

impl Connection {
    async fn run(mut self, attached: &Attached, mut replaced: watch::Receiver<u64>) -> Result<End, Error> {
        let fault = self.world.fault;
        sleep(fault.greeting_delay()).await;
        match fault.bad_greeting() {
            Some(frame) => self.send_bad(frame).await?,
            None => self.say(&ServerMessage::Hello(hello(attached))).await?,
        }
        let mut news = self.session.news();
        let mut heart = self.quiet();
        loop {
            tokio::select! {
                received = self.socket.next() => match received.transpose()? {
                    None => return Ok(End::Connection),
                    Some(Message::Text(text)) => {
                        if self.obey(&text).await? {
                            close(&mut self.socket, CloseCode::Normal).await?;
                            return Ok(End::Session);
                        }
                    }
                    Some(Message::Pong(_)) if fault.hears_pongs() => heart = self.quiet(),
                    Some(_) => {}
                },
                // Cannot fail: the session owns the sender.
                _ = news.changed() => {
                    sleep(fault.delivery_delay()).await;
                    if !self.deliver().await? {
                        close(&mut self.socket, fault.code_for_slow()).await?;
                        return Ok(End::Connection);
                    }
                    // A client that reads messages is alive. A ping would be queued behind them.
                    heart = self.quiet();
                }
                () = sleep_until(heart.due.unwrap_or_else(Instant::now)), if heart.due.is_some() => {
                    if heart.asked {
                        self.give_up().await?;
                        return Ok(End::Connection);
                    }
                    heart = self.ask().await?;
                }
                _ = replaced.changed() => if let Some(code) = fault.code_for_replaced() {
                    close(&mut self.socket, code).await?;
                    return Ok(End::Connection);
                }
            }
        }
    }

    fn quiet(&self) -> Heart {
        let interval = self.world.fault.ping_interval(PING_INTERVAL);
        Heart { asked: false, due: interval.map(|interval| Instant::now() + interval) }
    }

    async fn ask(&mut self) -> Result<Heart, Error> {
        let seq = self.place as u64;
        match self.world.fault.bad_ping() {
            Some(frame) => self.send_bad(frame).await?,
            None => self.socket.send(Message::Ping(ping_payload(seq).to_vec().into())).await?,
        }
        let timeout = self.world.fault.pong_timeout(PONG_TIMEOUT);
        Ok(Heart { asked: true, due: timeout.map(|timeout| Instant::now() + timeout) })
    }

    async fn give_up(&mut self) -> Result<(), Error> {
        match self.world.fault.code_for_silence() {
            Some(code) => close(&mut self.socket, code).await,
            None => Ok(()),
        }
    }

    /// Returns false if the client does not read in time.
    async fn deliver(&mut self) -> Result<bool, Error> {
        let write_timeout = self.world.fault.write_timeout(WRITE_TIMEOUT);
        for object in self.session.stream_from(self.place) {
            let sent = self.socket.send(Message::text(object));
            match write_timeout {
                Some(limit) => match timeout(limit, sent).await {
                    Ok(sent) => sent?,
                    Err(_) => return Ok(false),
                },
                None => sent.await?,
            }
            self.place += 1;
        }
        Ok(true)
    }

    /// Writes to the socket directly, because the library sends only valid frames.
    async fn send_bad(&mut self, frame: BadFrame) -> Result<(), Error> {
        Ok(self.socket.get_mut().write_all(frame.bytes()).await?)
    }

    /// Executes a command. Returns true if it was to end the session.
    async fn obey(&mut self, text: &str) -> Result<bool, Error> {
        let CommandRequest { id, command } = parse_command(text);
        let outcome = match command {
            Ok(Command::Close) => return Ok(true),
            Ok(Command::Ack { .. } | Command::Pong { .. }) => return Ok(false),
            Ok(command) => self.outcome_of(&command),
            Err(error) => refusal(error.code, error.message),
        };
        self.say(&ServerMessage::Reply(Reply { id, outcome })).await?;
        Ok(false)
    }

    fn outcome_of(&self, command: &Command<'_>) -> ReplyOutcome<'static> {
        ReplyOutcome::Ok(match command {
            Command::Subscribe { channel, begin: StartPosition::Now } => {
                self.session.subscribe(channel);
                let offset = self.world.offset_of(channel);
                ReplyData::Subscribed {
                    channel: channel.to_string().into(),
                    epoch: EPOCH.into(),
                    offset,
                    recovered: None,
                }
            }
            Command::Unsubscribe { channel } => {
                self.session.unsubscribe(channel);
                ReplyData::Nothing {}
            }
            Command::Publish { channel, data, .. } => match self.world.publish(channel, data) {
                Some(offset) => ReplyData::Published { offset, epoch: EPOCH.into() },
                None => return refusal(ErrorCode::Limit, "the channel is full".to_owned()),
            },
            _ => return refusal(ErrorCode::UnknownCommand, "not supported by this server".to_owned()),
        })
    }

    async fn say(&mut self, message: &ServerMessage<'_>) -> Result<(), Error> {
        self.socket.send(Message::text(message.to_json())).await
    }
}

/// Channels of this server never change their epoch.
const EPOCH: &str = "e";

fn refusal(code: ErrorCode, message: String) -> ReplyOutcome<'static> {
    ReplyOutcome::Error(ReplyError { code, message: message.into() })
}

/// Sends a Close frame and waits until the client closes the connection, so that no reset overtakes the
/// frame.
async fn close(socket: &mut Socket, code: CloseCode) -> Result<(), Error> {
    let frame = CloseFrame { code: code.code().into(), reason: code.reason().into() };
    socket.send(Message::Close(Some(frame))).await?;
    let drain = async { while let Some(Ok(_)) = socket.next().await {} };
    // A client that stays longer is disconnected.
    let _ = timeout(TIMEOUT, drain).await;
    Ok(())
}
