//! Minimal servers of other kinds than Encke.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::accept::accept;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Pings, and closes with 1001 a client that does not answer in time.
    Plain,
    /// Closes every connection at once, with this code.
    PlainThatCloses(u16),
    /// Engine.IO and Socket.IO: pings, and closes a client that does not answer in time.
    Socketio,
    /// Disconnects every client after an event with an attachment.
    SocketioThatDisconnects,
    /// Refuses every client.
    SocketioThatRefuses,
    /// An event stream that continues until its client disconnects.
    Sse,
    /// An event stream that ends after its events.
    SseThatEnds,
    /// An event stream that ends within a chunk.
    SseThatBreaks,
    /// An event stream without ids.
    SseWithoutIds,
    /// Answers 204, after which clients must not reconnect.
    SseGone,
    /// An HTML page.
    Page,
}

/// Ping timeout that Socket.IO announces.
const PING_TIMEOUT_MS: u64 = 300;
/// Actual ping timeout. It is longer, so that a client that reads a ping late does not count the close as
/// early.
const TIMEOUT: Duration = Duration::from_millis(350);
/// Ping timeout for tests in which clients must stay, even if a busy machine delays their answers.
const LONG: Duration = Duration::from_secs(60);
/// Time from a client's answer to the next ping.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct FakeTarget {
    kind: Kind,
    address: SocketAddr,
    asked: watch::Receiver<Vec<String>>,
}

/// First input on each connection: the head of its request, its query, or its CONNECT packet.
type Asked = watch::Sender<Vec<String>>;

impl FakeTarget {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::with_patience(kind, TIMEOUT).await
    }

    /// Starts a server that disconnects no client.
    pub(crate) async fn patient(kind: Kind) -> Self {
        Self::with_patience(kind, LONG).await
    }

    async fn with_patience(kind: Kind, patience: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (sender, asked) = watch::channel(Vec::new());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepting works");
                // With Nagle's algorithm, a ping would wait for the ACK of earlier data, and its timeout
                // would come early.
                stream.set_nodelay(true).expect("TCP sockets support TCP_NODELAY");
                let sender = sender.clone();
                // Clients may disconnect at any time. The counts that the tests assert show any failure that
                // matters.
                tokio::spawn(async move { drop(serve(stream, kind, patience, &sender).await) });
            }
        });
        Self { kind, address, asked }
    }

    /// Value of `--target` for this server.
    pub(crate) fn target(&self) -> &'static str {
        match self.kind {
            Kind::Plain | Kind::PlainThatCloses(_) => "plain",
            Kind::Socketio | Kind::SocketioThatDisconnects | Kind::SocketioThatRefuses => "socketio",
            _ => "sse",
        }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.target() == "sse" { "http" } else { "ws" };
        format!("{scheme}://{}/path", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }

    /// Waits until this many connections have sent their first input.
    pub(crate) async fn has_been_asked(&self, connections: usize) {
        let mut asked = self.asked.clone();
        asked.wait_for(|asked| asked.len() >= connections).await.expect("the server is running");
    }
}

async fn serve(stream: TcpStream, kind: Kind, patience: Duration, asked: &Asked) -> Result<(), Error> {
    match kind {
        Kind::Plain | Kind::PlainThatCloses(_) => serve_plain(stream, kind, patience, asked).await,
        Kind::Socketio | Kind::SocketioThatDisconnects | Kind::SocketioThatRefuses => {
            serve_socketio(stream, kind, patience, asked).await
        }
        _ => Ok(serve_events(stream, kind, asked).await?),
    }
}

async fn serve_plain(stream: TcpStream, kind: Kind, patience: Duration, asked: &Asked) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    asked.send_modify(|asked| asked.push(query));
    if let Kind::PlainThatCloses(code) = kind {
        return close(&mut socket, code).await;
    }
    socket.send(Message::text("welcome")).await?;
    loop {
        socket.send(Message::Ping(b"there?".to_vec().into())).await?;
        loop {
            match timeout(patience, socket.next()).await {
                Ok(Some(Ok(Message::Pong(_)))) => break,
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return Ok(()),
                Err(_) => return close(&mut socket, 1001).await,
            }
        }
        // Reading answers the client's pings.
        let _ = timeout(PAUSE, read_on(&mut socket)).await;
    }
}

type Socket = WebSocketStream<TcpStream>;

async fn close(socket: &mut Socket, code: u16) -> Result<(), Error> {
    socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await?;
    read_on(socket).await
}

async fn read_on(socket: &mut Socket) -> Result<(), Error> {
    while socket.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn serve_socketio(
    stream: TcpStream,
    kind: Kind,
    patience: Duration,
    asked: &Asked,
) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    assert_eq!(query, "EIO=4&transport=websocket");
    let open = format!(
        r#"0{{"sid":"e1","upgrades":[],"pingInterval":100,"pingTimeout":{PING_TIMEOUT_MS},"maxPayload":1000000}}"#
    );
    socket.send(Message::text(open)).await?;
    let Some(Message::Text(connect)) = socket.next().await.transpose()? else { return Ok(()) };
    let connect = connect.strip_prefix("40").expect("the client connects to the main namespace").to_owned();
    let pid =
        serde_json::from_str::<Value>(&connect).ok().and_then(|it| Some(it["pid"].as_str()?.to_owned()));
    asked.send_modify(|asked| asked.push(connect));
    socket.send(Message::text("2")).await?;
    assert_eq!(
        next_text(&mut socket).await?.as_deref(),
        Some("3"),
        "pings are answered before the namespace is connected"
    );
    if matches!(kind, Kind::SocketioThatRefuses) {
        socket.send(Message::text(r#"44{"message":"not you"}"#)).await?;
        return read_on(&mut socket).await;
    }
    // A reconnecting client keeps its id, and first receives what it missed.
    if pid.is_some() {
        socket.send(Message::text(r#"42["news",{"a":2},"offset2"]"#)).await?;
    }
    let pid = pid.unwrap_or_else(|| format!("p{}", asked.borrow().len()));
    socket.send(Message::text(format!(r#"40{{"sid":"s{pid}","pid":"{pid}"}}"#))).await?;
    if matches!(kind, Kind::SocketioThatDisconnects) {
        socket.send(Message::text(r#"451-["picture",{"_placeholder":true,"num":0}]"#)).await?;
        socket.send(Message::binary(b"\x89PNG".to_vec())).await?;
        socket.send(Message::text("41")).await?;
        return read_on(&mut socket).await;
    }
    socket.send(Message::text(r#"42["news",{"a":1},"offset1"]"#)).await?;
    loop {
        socket.send(Message::text("2")).await?;
        match timeout(patience, next_text(&mut socket)).await {
            Ok(Ok(Some(answer))) => assert_eq!(answer, "3"),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return socket.close(None).await,
        }
        sleep(PAUSE).await;
    }
}

/// Returns the next text message. Reading answers WebSocket pings.
async fn next_text(socket: &mut Socket) -> Result<Option<String>, Error> {
    while let Some(message) = socket.next().await.transpose()? {
        if let Message::Text(text) = message {
            return Ok(Some(text.as_str().to_owned()));
        }
    }
    Ok(None)
}

async fn serve_events(stream: TcpStream, kind: Kind, asked: &Asked) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    asked.send_modify(|asked| asked.push(head));
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    const ON_AND_ON: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
    let (response, stays): (&[&str], _) = match kind {
        Kind::SseGone => (&["HTTP/1.1 204 No Content\r\n\r\n"], false),
        Kind::Page => {
            (&["HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"], false)
        }
        Kind::SseThatEnds => (&[CHUNKED, "c\r\nid: 1\r\ndata:\r\n5\r\n a\n\n\r\r\n", "0\r\n\r\n"], false),
        Kind::SseThatBreaks => (&[CHUNKED, "ff\r\ndata: a\n\n"], false),
        Kind::SseWithoutIds => (&[ON_AND_ON, "data: a\n\n"], true),
        _ => (&[ON_AND_ON, "id: 1\ndata: a\n\n: still here\n\nid: 2\r\ndata: b\r\n\r\n"], true),
    };
    for piece in response {
        stream.write_all(piece.as_bytes()).await?;
    }
    if stays {
        let mut rest = String::new();
        while stream.read_line(&mut rest).await? != 0 {}
    }
    Ok(())
}
