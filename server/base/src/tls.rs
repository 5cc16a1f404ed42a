//! TLS of the public listener, whose certificate and key can be reloaded while the server runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use encke_tls::{PemFile, TlsError, VERSIONS, certified_key};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::sign::SingleCertAndKey;
use tokio_rustls::TlsAcceptor;

use crate::locks::RwLock;

/// Protocol offered to clients: the only one from which a WebSocket connection is upgraded.
const HTTP_1_1: &[u8] = b"http/1.1";

/// Certificate and key of the public listener.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// Acceptor for new connections. Existing connections keep the certificate they started with.
    acceptor: RwLock<TlsAcceptor>,
    /// Whether the files are being read.
    reloading: AtomicBool,
}

impl Tls {
    /// Reads a certificate chain, the server's own certificate first, and its key, both in PEM.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let acceptor = RwLock::new(read(&certificate, &key)?);
        Ok(Self { certificate, key, acceptor, reloading: AtomicBool::new(false) })
    }

    /// Reads both files again. New connections use the new certificate.
    ///
    /// # Errors
    /// [`TlsError`], in which case the old certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let acceptor = read(&self.certificate, &self.key)?;
        *self.acceptor.write() = acceptor;
        Ok(())
    }

    /// Calls [`reload`](Self::reload) in a separate thread, so that slow reads block nothing else. Logs the
    /// result, then drops `reloading`.
    pub fn reload_in_background(self: &Arc<Self>, reloading: impl Send + 'static) {
        if self.reloading.swap(true, Ordering::Relaxed) {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            return tracing::error!(%certificate, %key, "certificate not reloaded: the previous reload is still reading one of these files");
        }
        let tls = Arc::clone(self);
        let started = thread::Builder::new().name("encke-reload".to_owned()).spawn(move || {
            match tls.reload() {
                Ok(()) => tracing::info!("certificate reloaded"),
                Err(error) => tracing::error!(setting = error.setting(), %error, "certificate not reloaded: keeping the old one"),
            }
            tls.reloading.store(false, Ordering::Relaxed);
            drop(reloading);
        });
        if let Err(error) = started {
            self.reloading.store(false, Ordering::Relaxed);
            tracing::error!(%error, "cannot start a thread to reload the certificate: keeping the old one");
        }
    }

    pub fn acceptor(&self) -> TlsAcceptor {
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
    // Clients that reconnect, possibly all together after a network outage, resume their TLS session without
    // a signature.
    config.ticketer = ring::Ticketer::new().map_err(failed)?;
    // Each client opens a single connection, so one ticket is enough.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config).into())
}
