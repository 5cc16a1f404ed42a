//! Certificates and private keys in PEM files.

use std::fmt;
use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Why a certificate or key cannot be used. The message never quotes the key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsError {
    setting: &'static str,
    message: String,
}

impl TlsError {
    pub fn new(setting: &'static str, message: impl fmt::Display) -> Self {
        Self { setting, message: message.to_string() }
    }

    /// Configuration key that names the file.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PemFile<'a> {
    /// Configuration key that names the file.
    pub setting: &'static str,
    pub path: &'a Path,
}

impl PemFile<'_> {
    pub fn error(&self, problem: impl fmt::Display) -> TlsError {
        TlsError::new(self.setting, format_args!("{}: {problem}", self.path.display()))
    }

    /// Reads all certificates in the file, of which there must be at least one.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let certificates = CertificateDer::pem_file_iter(self.path).and_then(Iterator::collect);
        let certificates: Vec<_> = certificates.map_err(|error| self.error(pem_problem(&error)))?;
        if certificates.is_empty() {
            return Err(self.error("contains no PEM certificate"));
        }
        Ok(certificates)
    }
}

/// Reads a certificate chain, the end-entity certificate first, and its private key.
///
/// # Errors
/// [`TlsError`], which names the file.
pub fn certified_key(
    certificate: PemFile<'_>,
    key: PemFile<'_>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificate.certificates()?;
    let der = PrivateKeyDer::from_pem_file(key.path).map_err(|error| {
        let nothing = matches!(error, pem::Error::NoItemsFound);
        key.error(if nothing { "contains no PEM private key".to_owned() } else { pem_problem(&error) })
    })?;
    let signing = provider.key_provider.load_private_key(der);
    let signing = signing.map_err(|_| key.error("is not a supported TLS key"))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        // `Unknown`: the key type does not allow the comparison.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(key
                .error(format_args!("does not belong to the certificate in {}", certificate.path.display())))
        }
        Err(error) => Err(certificate.error(error)),
    }
}

/// Describes a PEM error. The library's own message may quote the file.
fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        _ => "is not valid PEM".to_owned(),
    }
}
