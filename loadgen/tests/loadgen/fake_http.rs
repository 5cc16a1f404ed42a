//! An HTTP server that answers as each test requires: an admin API, event streams, or long-polling.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// An answer, and what happens after it.
pub(crate) struct Answer {
    pub(crate) delay: Duration,
    pub(crate) text: String,
    /// Whether the connection stays open, for other requests.
    pub(crate) stays: bool,
}

pub(crate) struct FakeHttp {
    pub(crate) address: SocketAddr,
    requests: watch::Receiver<Vec<String>>,
}

impl Answer {
    /// Creates an answer with a body. `headers` end with a line break, if there are any.
    pub(crate) fn new(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
        Self { delay: Duration::ZERO, text, stays: !headers.contains("close") }
    }
}

impl FakeHttp {
    /// Starts a server. `answer` receives the number of each request, counted from 1 over all connections, and
    /// its head and body.
    pub(crate) async fn start(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (sender, requests) = watch::channel(Vec::new());
        let server = Arc::new((answer, sender));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepting works");
                let server = server.clone();
                // Clients may disconnect at any time. The counts that the tests assert show any failure that
                // matters.
                tokio::spawn(async move { drop(serve(stream, &server.0, &server.1).await) });
            }
        });
        Self { address, requests }
    }

    /// Returns the head and the body of each request.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }
}

async fn serve(
    stream: TcpStream,
    answer: &impl Fn(usize, &str) -> Answer,
    requests: &watch::Sender<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = next_request(&mut stream).await? {
        requests.send_modify(|requests| requests.push(request.clone()));
        let number = requests.borrow().len();
        let Answer { delay, text, stays } = answer(number, &request);
        sleep(delay).await;
        stream.write_all(text.as_bytes()).await?;
        if !stays {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

async fn next_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request).await? == 0 {
            return Ok(None);
        }
    }
    let head = request.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |text| text.parse().expect("a length is a number"));
    stream.take(length).read_to_string(&mut request).await?;
    Ok(Some(request))
}
