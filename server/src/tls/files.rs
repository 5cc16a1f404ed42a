//! Certificates and their keys, in files.

use std::fmt;
use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Why certificate and key cannot be used. It does not quote the key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsError {
    setting: &'static str,
    message: String,
}

impl TlsError {
    pub(crate) fn new(setting: &'static str, message: impl fmt::Display) -> Self {
        Self { setting, message: message.to_string() }
    }

    /// The setting whose file it is.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// A file in PEM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PemFile<'a> {
    /// The setting that names it.
    pub(crate) setting: &'static str,
    pub(crate) path: &'a Path,
}

impl PemFile<'_> {
    pub(crate) fn error(&self, problem: impl fmt::Display) -> TlsError {
        TlsError::new(self.setting, format_args!("{}: {problem}", self.path.display()))
    }

    /// All certificates in it: at least one.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let certificates = CertificateDer::pem_file_iter(self.path).and_then(Iterator::collect);
        let certificates: Vec<_> = certificates.map_err(|error| self.error(pem_problem(&error)))?;
        if certificates.is_empty() {
            return Err(self.error("has no certificate in PEM"));
        }
        Ok(certificates)
    }
}

/// A certificate chain, the owner's own first, and its key.
///
/// # Errors
/// [`TlsError`], which names the file.
pub(crate) fn certified_key(
    certificate: PemFile<'_>,
    key: PemFile<'_>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificate.certificates()?;
    let der = PrivateKeyDer::from_pem_file(key.path).map_err(|error| {
        let nothing = matches!(error, pem::Error::NoItemsFound);
        key.error(if nothing { "has no private key in PEM".to_owned() } else { pem_problem(&error) })
    })?;
    let signing = provider.key_provider.load_private_key(der);
    let signing = signing.map_err(|_| key.error("is not a key for TLS"))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        // Unknown: it cannot be told.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(key
                .error(format_args!("does not belong to the certificate in {}", certificate.path.display())))
        }
        Err(error) => Err(certificate.error(error)),
    }
}

/// The library's own words may quote the file.
fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        _ => "is damaged PEM".to_owned(),
    }
}
