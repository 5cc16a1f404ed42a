//! A long-polling server that sends no messages, and behaves as each test requires.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use encke_core::dialect::json::{Hello, ServerMessage};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How the server treats polls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBehaviour {
    /// How long a poll is held.
    pub(crate) hold: Duration,
    /// Status, additional headers and body of the response.
    pub(crate) answer: (&'static str, &'static str, &'static str),
    /// Whether sessions outlive their connections.
    pub(crate) keeps_sessions: bool,
}

impl Default for PollBehaviour {
    fn default() -> Self {
        Self { hold: Duration::from_millis(300), answer: ("200 OK", "", "[]"), keeps_sessions: true }
    }
}

pub(crate) struct FakePolls {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakePolls {
    pub(crate) async fn start(behaviour: PollBehaviour) -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let all = requests.clone();
        let address = serve_each(move |stream| {
            let all = all.clone();
            async move { serve(stream, behaviour, &all).await }
        });
        Self { address: address.await, requests }
    }

    /// Returns the first line and the body of each request.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the mutex is not poisoned").clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/poll?channels=news", self.address)
    }
}

/// Accepts connections on a new listener and serves each one. Returns the listener's address.
pub(crate) async fn serve_each<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("accepting works");
            let served = serve(stream);
            // Clients may disconnect at any time. The counts that the tests assert show any failure that
            // matters.
            tokio::spawn(async move { drop(served.await) });
        }
    });
    address
}

/// Returns the first line and the body of the next request.
pub(crate) async fn next_request(
    stream: &mut BufReader<TcpStream>,
) -> std::io::Result<Option<(String, String)>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a length is a number"))];
    stream.read_exact(&mut body).await?;
    let line = head.lines().next().unwrap_or_default().to_owned();
    Ok(Some((line, String::from_utf8(body).expect("clients send text"))))
}

async fn serve(
    stream: TcpStream,
    behaviour: PollBehaviour,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some((line, body)) = next_request(&mut stream).await? {
        requests.lock().expect("the mutex is not poisoned").push(format!("{line} {body}"));
        let is_new = !line.contains("resume=");
        let (status, headers, body) = match line.split(' ').next() {
            Some("POST") if !behaviour.keeps_sessions => {
                ("410 Gone", "", r#"{"error":{"code":"gone"}}"#.to_owned())
            }
            Some("POST") => ("200 OK", "", "[]".to_owned()),
            _ if is_new || !behaviour.keeps_sessions => ("200 OK", "", format!("[{}]", hello())),
            _ => {
                sleep(behaviour.hold).await;
                let (status, headers, body) = behaviour.answer;
                (status, headers, body.to_owned())
            }
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
        stream.write_all(answer.as_bytes()).await?;
        if headers.contains("close") {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

fn hello() -> String {
    let hello = Hello {
        version: 1,
        session: "s_1".into(),
        resume: "s_1.secret".into(),
        recovered: false,
        seq: 0,
        ping_interval_ms: 25_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: 60_000,
    };
    ServerMessage::Hello(hello).to_json()
}
