//! A private certificate authority.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Creates an authority with a unique name.
    ///
    /// # Panics
    /// Panics if the system provides no randomness, or if the certificate cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        // Trust anchors are looked up by name as well as by key, so the name must be unique.
        let name = format!("Authority {}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("the certificate can be self-signed");
        let directory = TempDir::new().expect("a temporary directory can be created");
        let authority = Self { issuer, directory };
        write(&authority.path(), &authority.issuer.pem());
        authority
    }

    /// Returns the path of the authority's own certificate.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Issues a certificate for this name or address, and writes `certificate.pem` and `key.pem`. Returns
    /// their paths.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    #[track_caller]
    pub fn issue(&self, name: &str, directory: &Path) -> (PathBuf, PathBuf) {
        let key = key();
        let params = CertificateParams::new([name.to_owned()]).expect("the name is valid");
        let certificate = params.signed_by(&key, &self.issuer).expect("the certificate can be signed");
        let (certificate_path, key_path) = (directory.join("certificate.pem"), directory.join("key.pem"));
        write(&certificate_path, &certificate.pem());
        write(&key_path, &key.serialize_pem());
        (certificate_path, key_path)
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be generated")
}

#[track_caller]
fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the file can be written");
}
