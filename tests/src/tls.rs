//! Certificates, and a stock WebSocket client with TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use serde_json::Value;
use tungstenite::{Message, WebSocket};

use crate::Hello;
use crate::waiting::TIMEOUT;

/// Both TLS versions that the server supports.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// Self-signed certificate for `localhost`, with its key.
#[derive(Debug)]
pub struct Certificate {
    certificate: rcgen::Certificate,
    key_pem: String,
}

impl Certificate {
    /// Generates a new certificate.
    ///
    /// # Panics
    /// Panics if the system provides no randomness.
    #[must_use]
    pub fn generate() -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let certified = certified.expect("a certificate can be generated");
        Self { certificate: certified.cert, key_pem: certified.signing_key.serialize_pem() }
    }

    /// Writes `certificate.pem` and `key.pem`. Returns their paths.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    #[track_caller]
    pub fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
        fs::write(&certificate, self.certificate.pem()).expect("the file can be written");
        fs::write(&key, &self.key_pem).expect("the file can be written");
        (certificate, key)
    }

    /// Returns the configuration of a client that trusts only this certificate.
    fn client(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("the certificate is valid");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let mut config =
            builder.expect("ring supports the version").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

/// A client with TLS that has received its hello.
#[derive(Debug)]
pub struct TlsClient {
    socket: WebSocket<StreamOwned<ClientConnection, TcpStream>>,
    pub hello: Hello,
}

/// Connects and completes a TLS handshake.
///
/// # Errors
/// Returns the TLS error, such as an untrusted certificate.
///
/// # Panics
/// Panics if the server does not accept.
pub fn handshake(
    address: SocketAddr,
    trusted: &Certificate,
    version: &'static SupportedProtocolVersion,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    handshake_over(TcpStream::connect(address).expect("the server accepts"), trusted, version)
}

/// Like [`handshake`], over a connected socket.
///
/// # Errors
/// Returns the TLS error.
///
/// # Panics
/// Panics if ring does not support the version.
pub fn handshake_over(
    mut tcp: TcpStream,
    trusted: &Certificate,
    version: &'static SupportedProtocolVersion,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    tcp.set_read_timeout(Some(TIMEOUT))?;
    tcp.set_write_timeout(Some(TIMEOUT))?;
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").expect("the name is valid");
    let mut connection =
        ClientConnection::new(Arc::new(trusted.client(version)), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(connection, tcp))
}

impl TlsClient {
    /// Connects with TLS 1.3 and waits for the hello.
    #[must_use]
    #[track_caller]
    pub fn connect(address: SocketAddr, trusted: &Certificate) -> Self {
        Self::connect_with_version(address, trusted, &rustls::version::TLS13)
    }

    /// Connects with this TLS version and waits for the hello.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[must_use]
    #[track_caller]
    pub fn connect_with_version(
        address: SocketAddr,
        trusted: &Certificate,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        Self::over(TcpStream::connect(address).expect("the server accepts"), trusted, version)
    }

    /// Like [`connect_with_version`](Self::connect_with_version), over a connected socket.
    ///
    /// # Panics
    /// Panics if no hello arrives.
    #[must_use]
    #[track_caller]
    pub fn over(tcp: TcpStream, trusted: &Certificate, version: &'static SupportedProtocolVersion) -> Self {
        let stream = handshake_over(tcp, trusted, version).expect("the certificate is trusted");
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (mut socket, _) = tungstenite::client("ws://localhost/ws", stream).expect("the server upgrades");
        let hello = Hello::parse(next_object(&mut socket));
        Self { socket, hello }
    }

    /// Returns the next object. Pings that precede it are answered.
    #[track_caller]
    pub fn object(&mut self) -> Value {
        next_object(&mut self.socket)
    }

    /// Sends a command and returns its reply.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn request(&mut self, command: &str) -> Value {
        self.socket.send(Message::text(command)).expect("the connection is open");
        self.object()["reply"].clone()
    }

    /// Sends a ping and waits for the pong.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[track_caller]
    pub fn ping(&mut self) {
        let payload = b"are you there".to_vec();
        self.socket.send(Message::Ping(payload.clone().into())).expect("the connection is open");
        loop {
            match self.socket.read().expect("the connection is open") {
                Message::Pong(answer) if answer == payload => return,
                Message::Ping(_) => {}
                other => panic!("expected a pong, got {other:?}"),
            }
        }
    }

    /// Sends bytes below the WebSocket layer as one TLS record, one byte every `pause`.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn drip(&mut self, bytes: &[u8], pause: Duration) {
        let stream = self.socket.get_mut();
        stream.conn.writer().write_all(bytes).expect("TLS accepts the bytes");
        let mut record = Vec::new();
        stream.conn.write_tls(&mut record).expect("writing to memory cannot fail");
        for byte in record {
            stream.sock.write_all(&[byte]).expect("the connection is open");
            crate::waiting::let_pass(pause);
        }
    }

    /// Sends bytes below the WebSocket layer repeatedly, without reading, until `over` returns `true`.
    ///
    /// # Panics
    /// Panics if `over` does not return `true` in time.
    #[track_caller]
    pub fn flood(&mut self, bytes: &[u8], over: impl Fn() -> bool) {
        let stream = self.socket.get_mut();
        let short = Some(Duration::from_millis(50));
        stream.sock.set_write_timeout(short).expect("the socket timeout can be set");
        let until = Instant::now() + TIMEOUT;
        let mut record = Vec::new();
        while !over() {
            assert!(Instant::now() < until, "the condition is never met");
            if record.is_empty() {
                stream.conn.writer().write_all(bytes).expect("TLS accepts the bytes");
                stream.conn.write_tls(&mut record).expect("writing to memory cannot fail");
            }
            // A write may time out: the server is expected to stop reading.
            if let Ok(written) = stream.sock.write(&record) {
                record.drain(..written);
            }
        }
    }

    /// Reads to the end of the stream. Returns the code of the Close frame, and whether TLS ended with
    /// `close_notify`.
    ///
    /// # Panics
    /// Panics if the stream ends without a Close frame.
    #[track_caller]
    pub fn close_code(mut self) -> (Option<u16>, bool) {
        let until = Instant::now() + TIMEOUT;
        let mut code = None;
        while Instant::now() < until {
            match self.socket.read() {
                Ok(Message::Close(frame)) => {
                    code = frame.map(|frame| frame.code.into());
                    break;
                }
                Ok(_) => {}
                Err(error) => panic!("no Close frame: {error}"),
            }
        }
        let _ = self.socket.flush();
        // Without `close_notify`, this read returns an error.
        let clean = self.socket.get_mut().read(&mut [0; 64]).is_ok_and(|read| read == 0);
        (code, clean)
    }
}

#[track_caller]
fn next_object(socket: &mut WebSocket<StreamOwned<ClientConnection, TcpStream>>) -> Value {
    loop {
        match socket.read().expect("the connection is open") {
            Message::Text(text) => return serde_json::from_str(&text).expect("the server sends JSON"),
            // tungstenite has queued the pong and sends it with the next read or write.
            Message::Ping(_) => socket.flush().expect("the connection is open"),
            other => panic!("expected an object, got {other:?}"),
        }
    }
}
