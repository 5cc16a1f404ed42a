//! The application backend that the server calls: an HTTP server that records its requests and replies as the
//! test specifies.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::port::listen;
use crate::waiting::let_pass;

#[derive(Clone, Debug)]
pub struct BackendRequest {
    /// Path and query.
    pub path: String,
    /// Header fields, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// When the request had been received completely.
    pub received_at: Instant,
    /// Status of the reply, if one was sent.
    pub status: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct BackendReply {
    /// Status code; 0 closes the connection without a reply. See also [`BackendReply::TRUNCATED`].
    pub status: u16,
    /// Lines that end in CR LF.
    pub headers: String,
    pub body: String,
    pub delay: Duration,
}

type ReplyFn = Arc<dyn Fn(&BackendRequest) -> BackendReply + Send + Sync>;

/// The application's HTTP server. See the [module](self). Its threads run until the test process exits.
#[derive(Clone)]
pub struct Backend {
    pub address: SocketAddr,
    shared: Arc<BackendState>,
}

struct BackendState {
    requests: Mutex<Vec<BackendRequest>>,
    reply_fn: Mutex<ReplyFn>,
}

impl BackendReply {
    /// Pseudo-status: sends a 200 head without a body length and closes the connection.
    pub const TRUNCATED: u16 = 1;

    /// Creates a reply with this status, without headers or a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: String::new(), body: String::new(), delay: Duration::ZERO }
    }

    /// Creates a reply that approves the request of any hook: a client is who its token says, or anonymous with all
    /// permissions.
    pub fn approval_of(request: &BackendRequest) -> Self {
        const ANONYMOUS: &str =
            r#"{"anonymous":true,"channels":{"*":["subscribe","publish","presence","history"]}}"#;
        Self::json(match &*request.path {
            "/connect" if request.json()["user"].is_string() => r#"{"token":true}"#,
            "/connect" => ANONYMOUS,
            "/call" => r#"{"data":null}"#,
            _ => r#"{"allow":true}"#,
        })
    }

    pub fn json(body: impl fmt::Display) -> Self {
        let headers = "Content-Type: application/json\r\n".to_owned();
        Self { headers, body: body.to_string(), ..Self::status(200) }
    }

    pub fn delayed_by(self, after: Duration) -> Self {
        Self { delay: after, ..self }
    }
}

impl BackendRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the server sends JSON")
    }
}

impl Default for Backend {
    fn default() -> Self {
        Self::start()
    }
}

impl Backend {
    /// Starts a backend that approves every request.
    pub fn start() -> Self {
        Self::serve(listen().0, Some)
    }

    /// Starts a backend at this address that approves every request.
    pub fn start_at(address: SocketAddr) -> Self {
        Self::serve(TcpListener::bind(address).expect("the address is free"), Some)
    }

    /// Starts a backend with TLS that approves every request. Certificate and key are PEM files.
    pub fn start_tls(certificate: &Path, key: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("certificate and key match");
        let config = Arc::new(config);
        Self::serve(listen().0, move |stream| {
            Some(StreamOwned::new(ServerConnection::new(Arc::clone(&config)).ok()?, stream))
        })
    }

    fn serve<S: Read + Write + Send + 'static>(
        listener: TcpListener,
        over: impl Fn(TcpStream) -> Option<S> + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("the listener is bound");
        let answering: Mutex<ReplyFn> = Mutex::new(Arc::new(BackendReply::approval_of));
        let shared = Arc::new(BackendState { requests: Mutex::default(), reply_fn: answering });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&accepting);
                if let Some(stream) = over(stream) {
                    // Ignore connection errors: handling them is up to the server under test.
                    thread::spawn(move || shared.serve_connection(BufReader::new(stream)));
                }
            }
        });
        Self { address, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Replies to later requests with the result of this function.
    pub fn reply_with(&self, answering: impl Fn(&BackendRequest) -> BackendReply + Send + Sync + 'static) {
        *self.shared.reply_fn.lock() = Arc::new(answering);
    }

    pub fn reply_with_status(&self, status: u16) {
        self.reply_with(move |_| BackendReply::status(status));
    }

    /// Returns all requests so far, in the order in which they were completed.
    pub fn requests(&self) -> Vec<BackendRequest> {
        self.shared.requests.lock().clone()
    }
}

impl BackendState {
    fn serve_connection(&self, mut stream: BufReader<impl Read + Write>) -> Option<()> {
        loop {
            let request = read_request(&mut stream)?;
            let index = {
                let mut all = self.requests.lock();
                all.push(request.clone());
                all.len() - 1
            };
            let reply_fn = Arc::clone(&self.reply_fn.lock());
            let reply = reply_fn(&request);
            let_pass(reply.delay);
            let BackendReply { status, headers, body, .. } = reply;
            if status == 0 {
                return None;
            }
            if status == BackendReply::TRUNCATED {
                stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
                return None;
            }
            self.requests.lock()[index].status = Some(status);
            // A 204 must not have a `Content-Length` (RFC 9110, section 8.6).
            let length =
                if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            let head = format!("HTTP/1.1 {status} Status\r\n{length}{headers}\r\n");
            stream.get_mut().write_all((head + &body).as_bytes()).ok()?;
            stream.get_mut().flush().ok()?;
        }
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<BackendRequest> {
    let mut line = || {
        let mut line = String::new();
        (stream.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    };
    let path = line()?.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(Some(0), |(_, length)| length.parse().ok())?];
    stream.read_exact(&mut body).ok()?;
    Some(BackendRequest { path, headers, body, received_at: Instant::now(), status: None })
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("address", &self.address).finish_non_exhaustive()
    }
}
