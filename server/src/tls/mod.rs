//! TLS of the public listener: a certificate and its key, which can be exchanged while the server runs. And what the server trusts where it
//! is the client.

mod authorities;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

pub(crate) use authorities::authorities;
pub use files::TlsError;
pub(crate) use files::{PemFile, certified_key};

/// Those that the server speaks, with whomever.
pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS13, &rustls::version::TLS12];

/// WebSocket is upgraded to from this alone.
const HTTP_1_1: &[u8] = b"http/1.1";

/// A certificate in use.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// For the connections to come; those that are there have taken what they need.
    acceptor: RwLock<TlsAcceptor>,
    /// The files are being read.
    reloading: AtomicBool,
}

impl Tls {
    /// Reads a certificate chain, the server's own first, and its key, both in PEM.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let acceptor = RwLock::new(read(&certificate, &key)?);
        Ok(Self { certificate, key, acceptor, reloading: AtomicBool::new(false) })
    }

    /// Reads both files anew, for the connections to come.
    ///
    /// # Errors
    /// [`TlsError`]; then everything stays as it is.
    pub fn reload(&self) -> Result<(), TlsError> {
        let acceptor = read(&self.certificate, &self.key)?;
        *self.acceptor.write() = acceptor;
        Ok(())
    }

    /// The same, in a thread of its own: reading may take as long as it likes, and holds up nothing. The log says how it ended, and
    /// `reloading` is dropped then.
    pub(crate) fn reload_aside(self: &Arc<Self>, reloading: impl Send + 'static) {
        if self.reloading.swap(true, Ordering::Relaxed) {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            return tracing::error!(%certificate, %key, "these are still being read: one of them blocks");
        }
        let tls = Arc::clone(self);
        let started = thread::Builder::new().name("encke-reload".to_owned()).spawn(move || {
            match tls.reload() {
                Ok(()) => tracing::info!("certificate reloaded"),
                Err(error) => tracing::error!(setting = error.setting(), %error, "the old certificate stays"),
            }
            tls.reloading.store(false, Ordering::Relaxed);
            drop(reloading);
        });
        if let Err(error) = started {
            self.reloading.store(false, Ordering::Relaxed);
            tracing::error!(%error, "no thread to reload the certificate: the old one stays");
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

fn read(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let certificate = PemFile { setting: "tls.certificate", path: certificate };
    let key = PemFile { setting: "tls.key", path: key };
    let certified = certified_key(certificate, key, &provider)?;
    let failed = |error: rustls::Error| certificate.error(error);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&VERSIONS)
        .map_err(failed)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    // Clients that come back, all at once after a restart of their network, are spared the signature.
    config.ticketer = ring::Ticketer::new().map_err(failed)?;
    // One connection a client, so one ticket is enough.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config).into())
}
