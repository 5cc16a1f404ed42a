//! Servers that are not Encke, each as small as can be.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_async};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Pings, and closes with 1001 who does not answer for [`PATIENCE`].
    Plain,
    /// Engine.IO and Socket.IO: pings, and closes who does not answer for [`PATIENCE`].
    Socketio,
    /// A stream that goes on until its client is gone.
    Sse,
    /// The same in chunks, ended after its events.
    SseThatEnds,
    /// 204: come back no more.
    SseGone,
}

pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
/// Who has answered is pinged again after this.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct FakeTarget {
    pub(crate) address: SocketAddr,
    /// What came first on each connection: the head of its request, or its CONNECT packet.
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeTarget {
    pub(crate) async fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let list = asked.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("the listener works");
                // A ping that waits for the ACK of what was sent before it would make its timeout come early.
                stream.set_nodelay(true).expect("TCP sockets can do without delay");
                let list = list.clone();
                // Peers leave when they like: what fails here is a matter of the counts the tests assert.
                tokio::spawn(async move {
                    match kind {
                        Kind::Plain => drop(serve_plain(stream).await),
                        Kind::Socketio => drop(serve_socketio(stream, &list).await),
                        Kind::Sse | Kind::SseThatEnds | Kind::SseGone => {
                            drop(serve_events(stream, kind, &list).await);
                        }
                    }
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no test panics while it looks").clone()
    }
}

type Socket = WebSocketStream<TcpStream>;

async fn serve_plain(stream: TcpStream) -> Result<(), Error> {
    let mut socket = accept_async(stream).await?;
    loop {
        socket.send(Message::Ping(b"there?".to_vec().into())).await?;
        loop {
            match timeout(PATIENCE, socket.next()).await {
                Ok(Some(Ok(Message::Pong(_)))) => break,
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return Ok(()),
                Err(_) => return socket.close(None).await,
            }
        }
        // Answers pings meanwhile.
        let _ = timeout(PAUSE, read_on(&mut socket)).await;
    }
}

async fn read_on(socket: &mut Socket) -> Result<(), Error> {
    while socket.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn serve_socketio(stream: TcpStream, asked: &Mutex<Vec<String>>) -> Result<(), Error> {
    let mut socket = accept_async(stream).await?;
    let open = format!(
        r#"0{{"sid":"e1","upgrades":[],"pingInterval":100,"pingTimeout":{},"maxPayload":1000000}}"#,
        PATIENCE.as_millis()
    );
    socket.send(Message::text(open)).await?;
    let Some(Message::Text(connect)) = socket.next().await.transpose()? else { return Ok(()) };
    let connect = connect.strip_prefix("40").expect("it connects to the main namespace").to_owned();
    let pid =
        serde_json::from_str::<Value>(&connect).ok().and_then(|it| Some(it["pid"].as_str()?.to_owned()));
    let number = {
        let mut asked = asked.lock().expect("no test panics while it looks");
        asked.push(connect);
        asked.len()
    };
    // Who comes back is who it was.
    let pid = pid.unwrap_or_else(|| format!("p{number}"));
    socket.send(Message::text(format!(r#"40{{"sid":"s{pid}","pid":"{pid}"}}"#))).await?;
    socket.send(Message::text(r#"42["news",{"a":1},"offset1"]"#)).await?;
    loop {
        socket.send(Message::text("2")).await?;
        match timeout(PATIENCE, socket.next()).await {
            Ok(Some(answer)) => assert_eq!(answer?, Message::text("3")),
            Ok(None) => return Ok(()),
            Err(_) => return socket.send(Message::text("1")).await,
        }
        sleep(PAUSE).await;
    }
}

async fn serve_events(stream: TcpStream, kind: Kind, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    asked.lock().expect("no test panics while it looks").push(head);
    let response: &[&str] = match kind {
        Kind::SseGone => &["HTTP/1.1 204 No Content\r\n\r\n"],
        Kind::SseThatEnds => &[
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            "c\r\nid: 1\r\ndata:\r\n6\r\n a\n\n\r\r\n",
            "0\r\n\r\n",
        ],
        _ => &[
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n",
            "id: 1\ndata: a\n\n: still here\n\nid: 2\r\ndata: b\r\n\r\n",
        ],
    };
    for piece in response {
        stream.write_all(piece.as_bytes()).await?;
    }
    if matches!(kind, Kind::Sse) {
        let mut rest = String::new();
        while stream.read_line(&mut rest).await? != 0 {}
    }
    Ok(())
}
