//! Tests every transport over TLS, against a server with a self-signed certificate.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use encke_client::{
    ADDRESSES, AdminClient, ClientConnection, ClientEvent, ClientFailure, DialOptions, Dialer, Sources,
    Target, TlsOptions, Traffic,
};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, join, split};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

const HELLO: &str = r#"{"hello":{"version":1,"session":"s_1","resume":"s_1.x","recovered":false,"seq":0,"ping_interval_ms":1000,"pong_timeout_ms":1000,"reconnect_window_ms":1000}}"#;
/// Length of the first message after the greeting, more than a TLS record.
const MESSAGE_BYTES: usize = 100_000;

type AnyError = Box<dyn Error + Send + Sync>;

/// A server that greets each kind of client, and then sends a long message.
struct TlsServer {
    port: u16,
    directory: TempDir,
}

impl TlsServer {
    async fn start() -> Result<Self, AnyError> {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let directory = TempDir::new()?;
        std::fs::write(directory.path().join("ca.pem"), certified.cert.pem())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream));
            }
        });
        Ok(Self { port, directory })
    }

    /// Returns the options of a client that trusts this server.
    fn trusting(&self) -> TlsOptions {
        TlsOptions { ca: Some(self.directory.path().join("ca.pem")), insecure: false }
    }

    async fn open(
        &self,
        target: Target,
        scheme: &str,
        tls: TlsOptions,
    ) -> Result<ClientConnection, ClientFailure> {
        let url = format!("{scheme}://localhost:{}/{target:?}", self.port);
        let options = DialOptions {
            url: url.parse().expect("the URL is valid"),
            target,
            timeout: Duration::from_secs(10),
            pong_timeout: None,
            poll_hold: None,
            ext_ack: false,
            token: None,
            tls,
            receive_buffer_bytes: None,
            closes_with_reset: false,
        };
        let sources = Sources::new(([127, 0, 0, 1], self.port).into(), 0..ADDRESSES);
        Ok(Dialer::new(options, sources, &Traffic::default()).open(None).await?.0)
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), AnyError> {
    let (read, mut write) = split(acceptor.accept(stream).await?);
    let mut read = BufReader::new(read);
    let long = format!(r#"{{"data":"{}"}}"#, "x".repeat(MESSAGE_BYTES));
    for request in 0.. {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            read.read_line(&mut head).await?;
        }
        if head.contains("Sec-WebSocket-Key") {
            // tungstenite reads the head itself.
            let mut socket = accept_async(join(head.as_bytes().chain(read), write)).await?;
            socket.send(Message::text(HELLO)).await?;
            socket.send(Message::text(&*long)).await?;
            while socket.next().await.is_some() {}
            return Ok(());
        }
        let length = head.split_once("Content-Length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        read.read_exact(&mut vec![0; length.map_or(Ok(0), |(length, _)| length.parse())?]).await?;
        let body = match head.split(['/', ' ']).nth(2) {
            Some("Sse") => format!("data: {long}\n\n"),
            Some("Poll") if request == 0 => format!("[{HELLO}]"),
            _ => format!("[{long}]"),
        };
        let (kind, length) = ("text/event-stream", body.len());
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        write.write_all(&[head, body].concat().into_bytes()).await?;
        write.flush().await?;
    }
    Ok(())
}

const TARGETS: [(Target, &str); 3] =
    [(Target::Encke, "wss"), (Target::Sse, "https"), (Target::Poll, "https")];

#[tokio::test]
async fn every_transport_can_use_tls() -> Result<(), AnyError> {
    let server = TlsServer::start().await?;
    for (target, scheme) in TARGETS {
        for tls in [server.trusting(), TlsOptions { ca: None, insecure: true }] {
            let mut connection = server.open(target, scheme, tls).await?;
            let received = connection.each(|event| match event {
                ClientEvent::Text(text) => ControlFlow::Break(text.len()),
                _ => ControlFlow::Continue(()),
            });
            assert!(received.await? >= MESSAGE_BYTES, "{target:?} with {scheme}");
        }
    }
    let url = format!("https://localhost:{}", server.port);
    let mut admin = AdminClient::new(url.parse()?, Some("key"), &server.trusting())?;
    for _ in 0..2 {
        assert!(admin.get("/api/info").await?.len() >= MESSAGE_BYTES);
    }
    Ok(())
}

#[tokio::test]
async fn untrusted_certificates_are_refused() -> Result<(), AnyError> {
    let (server, other) = (TlsServer::start().await?, TlsServer::start().await?);
    for (target, scheme) in TARGETS {
        let failure = server.open(target, scheme, other.trusting()).await.expect_err("it is untrusted");
        assert_eq!(failure.kind(), "tls");
        assert!(failure.to_string().contains("invalid peer certificate"), "{failure}");
    }
    let missing = TlsOptions { ca: Some("/nonexistent".into()), insecure: false };
    let failure = server.open(Target::Encke, "wss", missing).await.expect_err("there is no file");
    assert!(failure.to_string().contains("--ca /nonexistent: cannot be read"), "{failure}");
    // The server closes a connection without TLS.
    let failure = server.open(Target::Encke, "ws", TlsOptions::default()).await;
    assert!(matches!(failure, Err(ClientFailure::Connect(_))), "{failure:?}");
    Ok(())
}
