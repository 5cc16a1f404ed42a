//! TLS streams, and a WebSocket client over them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion};

use crate::connection::{Connection, Dial, Transport};
use crate::waiting::{TIMEOUT, let_pass};
use crate::{Certificate, Client};

pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl Transport for TlsStream {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

/// Both TLS versions that the server supports.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// A client with TLS that has received its hello.
pub type TlsClient = Client<TlsStream>;

/// Connects and completes a TLS handshake.
pub fn handshake(
    address: SocketAddr,
    trusted: &Certificate,
    version: &'static SupportedProtocolVersion,
) -> io::Result<TlsStream> {
    handshake_over(Dial::default().connect(address), trusted, version)
}

/// Like [`handshake`], over a connected socket.
pub fn handshake_over(
    mut tcp: TcpStream,
    trusted: &Certificate,
    version: &'static SupportedProtocolVersion,
) -> io::Result<TlsStream> {
    tcp.set_read_timeout(Some(TIMEOUT))?;
    tcp.set_write_timeout(Some(TIMEOUT))?;
    let name = ServerName::try_from("localhost").expect("the name is valid");
    let mut connection =
        ClientConnection::new(Arc::new(trusted.client(version)), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(connection, tcp))
}

/// Returns the TLS record that contains these bytes, without sending it.
#[track_caller]
pub fn record(stream: &mut TlsStream, bytes: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    stream.conn.writer().write_all(bytes).expect("TLS accepts the bytes");
    stream.conn.write_tls(&mut record).expect("writing to memory cannot fail");
    record
}

/// Connects a client with TLS 1.3.
#[track_caller]
pub fn client(address: SocketAddr, trusted: &Certificate) -> TlsClient {
    client_over(Dial::default().connect(address), trusted, VERSIONS[1])
}

/// Like [`client`], over a connected socket and with this version.
#[track_caller]
pub fn client_over(
    tcp: TcpStream,
    trusted: &Certificate,
    version: &'static SupportedProtocolVersion,
) -> TlsClient {
    let stream = handshake_over(tcp, trusted, version).expect("the certificate is trusted");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    Client::over(stream, "")
}

impl TlsClient {
    /// Sends bytes below the WebSocket layer as one TLS record, one byte every `pause`.
    pub fn drip(&mut self, bytes: &[u8], pause: Duration) {
        let stream = &mut self.raw.stream;
        for byte in record(stream, bytes) {
            stream.sock.write_all(&[byte]).expect("the connection is open");
            let_pass(pause);
        }
    }

    /// Sends bytes below the WebSocket layer repeatedly, without reading, until `over` returns `true`.
    #[track_caller]
    pub fn flood(&mut self, bytes: &[u8], over: impl Fn() -> bool) {
        let stream = &mut self.raw.stream;
        let short = Some(Duration::from_millis(50));
        stream.sock.set_write_timeout(short).expect("the socket timeout can be set");
        let until = Instant::now() + TIMEOUT;
        let mut unsent = Vec::new();
        while !over() {
            assert!(Instant::now() < until, "the condition is never met");
            if unsent.is_empty() {
                unsent = record(stream, bytes);
            }
            // A write may time out: the server is expected to stop reading.
            if let Ok(written) = stream.sock.write(&unsent) {
                unsent.drain(..written);
            }
        }
    }

    /// Reads to the end of the stream. Returns the code of the Close frame, and whether TLS ended with
    /// `close_notify`.
    #[track_caller]
    pub fn close_code_and_notify(mut self) -> (Option<u16>, bool) {
        (self.close_code(), self.raw.has_received_notify())
    }
}

impl Connection<TlsStream> {
    /// Whether TLS has ended with `close_notify`. Without it, reading returns an error.
    pub fn has_received_notify(&mut self) -> bool {
        self.stream.read(&mut [0; 64]).is_ok_and(|read| read == 0)
    }
}
