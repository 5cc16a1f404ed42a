//! Minimal servers of kinds other than Encke.

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
pub(crate) enum FakeTargetKind {
    /// Sends pings, and closes with 1001 when a client does not answer in time.
    Plain,
    /// Closes every connection immediately, with this code.
    PlainThatCloses(u16),
    /// Engine.IO and Socket.IO: sends pings, and closes when a client does not answer in time.
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
    /// An event stream without event ids.
    SseWithoutIds,
    /// Responds with 204, after which clients must not reconnect.
    SseNoContent,
    /// An HTML page.
    Page,
}

/// Ping timeout that Socket.IO announces.
const PING_TIMEOUT_MS: u64 = 300;
/// Actual ping timeout. It is longer than the announced one, so that a client that reads a ping late does not
/// count the close as early.
const PING_TIMEOUT: Duration = Duration::from_millis(350);
/// Ping timeout for tests in which clients must stay connected, even if a busy machine delays their answers.
const LONG_PING_TIMEOUT: Duration = Duration::from_secs(60);
/// Time from a client's answer to the next ping.
const PING_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct FakeTarget {
    kind: FakeTargetKind,
    address: SocketAddr,
    first_inputs: watch::Receiver<Vec<String>>,
}

/// First input on each connection: the head of its request, its query, or its CONNECT packet.
type RequestLog = watch::Sender<Vec<String>>;

impl FakeTarget {
    pub(crate) async fn start(kind: FakeTargetKind) -> Self {
        Self::with_ping_timeout(kind, PING_TIMEOUT).await
    }

    /// Starts a server that disconnects no client.
    pub(crate) async fn patient(kind: FakeTargetKind) -> Self {
        Self::with_ping_timeout(kind, LONG_PING_TIMEOUT).await
    }

    async fn with_ping_timeout(kind: FakeTargetKind, ping_timeout: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (sender, first_inputs) = watch::channel(Vec::new());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepting works");
                // Disable Nagle's algorithm: a ping would wait for the ACK of earlier data, and its timeout
                // would come early.
                stream.set_nodelay(true).expect("TCP sockets support TCP_NODELAY");
                let sender = sender.clone();
                // Clients may disconnect at any time. The counts that the tests assert show any failure that
                // matters.
                tokio::spawn(async move { drop(serve(stream, kind, ping_timeout, &sender).await) });
            }
        });
        Self { kind, address, first_inputs }
    }

    /// Returns the value of `--target` for this server.
    pub(crate) fn target(&self) -> &'static str {
        match self.kind {
            FakeTargetKind::Plain | FakeTargetKind::PlainThatCloses(_) => "plain",
            FakeTargetKind::Socketio
            | FakeTargetKind::SocketioThatDisconnects
            | FakeTargetKind::SocketioThatRefuses => "socketio",
            _ => "sse",
        }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.target() == "sse" { "http" } else { "ws" };
        format!("{scheme}://{}/path", self.address)
    }

    pub(crate) fn first_inputs(&self) -> Vec<String> {
        self.first_inputs.borrow().clone()
    }

    /// Waits until this many connections have sent their first input.
    pub(crate) async fn has_first_inputs(&self, connections: usize) {
        let mut first_inputs = self.first_inputs.clone();
        first_inputs
            .wait_for(|first_inputs| first_inputs.len() >= connections)
            .await
            .expect("the server is running");
    }
}

async fn serve(
    stream: TcpStream,
    kind: FakeTargetKind,
    ping_timeout: Duration,
    first_inputs: &RequestLog,
) -> Result<(), Error> {
    match kind {
        FakeTargetKind::Plain | FakeTargetKind::PlainThatCloses(_) => {
            serve_plain(stream, kind, ping_timeout, first_inputs).await
        }
        FakeTargetKind::Socketio
        | FakeTargetKind::SocketioThatDisconnects
        | FakeTargetKind::SocketioThatRefuses => {
            serve_socketio(stream, kind, ping_timeout, first_inputs).await
        }
        _ => Ok(serve_events(stream, kind, first_inputs).await?),
    }
}

async fn serve_plain(
    stream: TcpStream,
    kind: FakeTargetKind,
    ping_timeout: Duration,
    first_inputs: &RequestLog,
) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    first_inputs.send_modify(|first_inputs| first_inputs.push(query));
    if let FakeTargetKind::PlainThatCloses(code) = kind {
        return close(&mut socket, code).await;
    }
    socket.send(Message::text("welcome")).await?;
    loop {
        socket.send(Message::Ping(b"there?".to_vec().into())).await?;
        loop {
            match timeout(ping_timeout, socket.next()).await {
                Ok(Some(Ok(Message::Pong(_)))) => break,
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return Ok(()),
                Err(_) => return close(&mut socket, 1001).await,
            }
        }
        // Read to answer the client's pings.
        let _ = timeout(PING_INTERVAL, read_on(&mut socket)).await;
    }
}

type FakeSocket = WebSocketStream<TcpStream>;

async fn close(socket: &mut FakeSocket, code: u16) -> Result<(), Error> {
    socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await?;
    read_on(socket).await
}

async fn read_on(socket: &mut FakeSocket) -> Result<(), Error> {
    while socket.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn serve_socketio(
    stream: TcpStream,
    kind: FakeTargetKind,
    ping_timeout: Duration,
    first_inputs: &RequestLog,
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
    first_inputs.send_modify(|first_inputs| first_inputs.push(connect));
    socket.send(Message::text("2")).await?;
    assert_eq!(
        next_text(&mut socket).await?.as_deref(),
        Some("3"),
        "pings are answered before the namespace is connected"
    );
    if matches!(kind, FakeTargetKind::SocketioThatRefuses) {
        socket.send(Message::text(r#"44{"message":"not you"}"#)).await?;
        return read_on(&mut socket).await;
    }
    // A reconnecting client keeps its id, and first receives the events that it missed.
    if pid.is_some() {
        socket.send(Message::text(r#"42["news",{"a":2},"offset2"]"#)).await?;
    }
    let pid = pid.unwrap_or_else(|| format!("p{}", first_inputs.borrow().len()));
    socket.send(Message::text(format!(r#"40{{"sid":"s{pid}","pid":"{pid}"}}"#))).await?;
    if matches!(kind, FakeTargetKind::SocketioThatDisconnects) {
        socket.send(Message::text(r#"451-["picture",{"_placeholder":true,"num":0}]"#)).await?;
        socket.send(Message::binary(b"\x89PNG".to_vec())).await?;
        socket.send(Message::text("41")).await?;
        return read_on(&mut socket).await;
    }
    socket.send(Message::text(r#"42["news",{"a":1},"offset1"]"#)).await?;
    loop {
        socket.send(Message::text("2")).await?;
        match timeout(ping_timeout, next_text(&mut socket)).await {
            Ok(Ok(Some(answer))) => assert_eq!(answer, "3"),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return socket.close(None).await,
        }
        sleep(PING_INTERVAL).await;
    }
}

/// Returns the next text message. Reading answers WebSocket pings.
async fn next_text(socket: &mut FakeSocket) -> Result<Option<String>, Error> {
    while let Some(message) = socket.next().await.transpose()? {
        if let Message::Text(text) = message {
            return Ok(Some(text.as_str().to_owned()));
        }
    }
    Ok(None)
}

async fn serve_events(
    stream: TcpStream,
    kind: FakeTargetKind,
    first_inputs: &RequestLog,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    first_inputs.send_modify(|first_inputs| first_inputs.push(head));
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    const ON_AND_ON: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
    let (response, stays): (&[&str], _) = match kind {
        FakeTargetKind::SseNoContent => (&["HTTP/1.1 204 No Content\r\n\r\n"], false),
        FakeTargetKind::Page => {
            (&["HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"], false)
        }
        FakeTargetKind::SseThatEnds => {
            (&[CHUNKED, "c\r\nid: 1\r\ndata:\r\n5\r\n a\n\n\r\r\n", "0\r\n\r\n"], false)
        }
        FakeTargetKind::SseThatBreaks => (&[CHUNKED, "ff\r\ndata: a\n\n"], false),
        FakeTargetKind::SseWithoutIds => (&[ON_AND_ON, "data: a\n\n"], true),
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
