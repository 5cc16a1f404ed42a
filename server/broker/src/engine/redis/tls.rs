//! TLS connections to Redis.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use encke_tls::{PemFile, TlsError, authorities, certified_key, trusting};
use rustls::CertificateError;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusted authorities and client certificate.
#[derive(Clone)]
pub struct RedisTls(TlsConnector);

impl RedisTls {
    /// Loads the TLS settings. Only the authorities in `ca` are trusted, or those of the operating system if
    /// it is `None`. `own` is the client certificate chain and its key, for a Redis that requires one. All
    /// files are PEM.
    ///
    /// # Errors
    /// [`TlsError`], which names the setting and the file.
    pub fn load(ca: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let builder = trusting(authorities("engine.ca", ca)?);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = PemFile { setting: "engine.certificate", path: certificate };
                let key = PemFile { setting: "engine.key", path: key };
                let certified = certified_key(certificate, key, &ring::default_provider())?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        Ok(Self(Arc::new(config).into()))
    }

    /// Performs the handshake, without a deadline.
    ///
    /// # Errors
    /// An I/O error that describes why the handshake failed.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await.map_err(|error| io::Error::new(error.kind(), described(&error)))
    }
}

/// Describes a failed handshake.
fn described(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "TLS: the certificate was not issued by a trusted authority (engine.ca)".to_owned()
        }
        _ => format!("TLS: {error}"),
    }
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls").finish_non_exhaustive()
    }
}
