//! A server as connections need it: its URL, and how its certificate is verified.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::source::connect_from;
use super::{ConnectError, Stream};
use crate::target::ServerUrl;

/// Options for the verification of server certificates.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsOptions {
    /// PEM file with the certificate authorities to trust, instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Accept every certificate, without verifying it
    #[arg(long)]
    pub insecure: bool,
}

impl TlsOptions {
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        if self.insecure {
            return Ok(Arc::new(encke_tls::unverified()));
        }
        let roots = encke_tls::authorities("--ca", self.ca.as_deref());
        let roots = roots.map_err(|error| format!("{} {error}", error.setting()))?;
        Ok(Arc::new(encke_tls::trusting(roots).with_no_client_auth()))
    }
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: ServerUrl,
    tls: TlsOptions,
    /// Loaded when the first connection needs it.
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Endpoint {
    pub(crate) fn new(url: ServerUrl, tls: TlsOptions) -> Arc<Self> {
        Arc::new(Self { url, tls, config: OnceLock::new() })
    }

    /// Opens a connection, from the first to the second address if there is a `route`.
    pub(super) async fn connect(
        self: Arc<Self>,
        route: Option<(IpAddr, SocketAddr)>,
    ) -> Result<Stream, ConnectError> {
        let stream = match route {
            Some((local, server)) => connect_from(local, server).await?,
            None => TcpStream::connect((self.url.host.as_str(), self.url.port)).await?,
        };
        stream.set_nodelay(true)?;
        self.secure(stream).await
    }

    /// Performs the TLS handshake, if the URL requires TLS.
    pub(crate) async fn secure(&self, stream: TcpStream) -> Result<Stream, ConnectError> {
        if !self.url.is_tls {
            return Ok(Stream::Left(stream));
        }
        // Boxed because a task is as large as its largest state.
        Box::pin(self.handshake(stream)).await
    }

    async fn handshake(&self, stream: TcpStream) -> Result<Stream, ConnectError> {
        let config = self.config.get_or_init(|| self.tls.client_config());
        let config = config.clone().map_err(ConnectError::Tls)?;
        let name = ServerName::try_from(self.url.host.clone());
        let name = name.map_err(|error| ConnectError::Tls(error.to_string()))?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        let stream = connected.map_err(|error| match error.get_ref() {
            Some(why) if why.is::<rustls::Error>() => ConnectError::Tls(why.to_string()),
            _ => ConnectError::Io(error),
        })?;
        Ok(Stream::Right(Box::new(stream)))
    }

    /// Encodes a request. `headers` are additional header lines.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
        let host = self.url.authority();
        let content = match body.len() {
            0 => String::new(),
            length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{content}{headers}\r\n{body}").into_bytes()
    }
}
