//! A private certificate authority, and the certificates that it issues.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;

#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// Certificate for `localhost` of an authority that has issued no other one.
#[derive(Debug)]
pub struct Certificate {
    issuer: CertificateDer<'static>,
    pem: String,
    key_pem: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Creates an authority with a unique name.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        // Trust anchors are looked up by name as well as by key, so the name must be unique.
        let name = format!("Authority {}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("the certificate can be self-signed");
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let authority = Self { issuer, directory };
        write(authority.path(), &authority.issuer.pem());
        authority
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Issues a certificate for this name or address, and writes `certificate.pem` and `key.pem`. Returns
    /// their paths.
    pub fn issue(&self, name: &str, directory: &Path) -> (PathBuf, PathBuf) {
        self.certify(name).write(directory)
    }

    fn certify(&self, name: &str) -> Certificate {
        let key = key();
        let params = CertificateParams::new([name.to_owned()]).expect("the name is valid");
        let certificate = params.signed_by(&key, &self.issuer).expect("the certificate can be signed");
        Certificate {
            issuer: self.issuer.der().clone(),
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Certificate {
    pub fn generate() -> Self {
        Authority::new().certify("localhost")
    }

    /// Writes `certificate.pem` and `key.pem`. Returns their paths.
    pub fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
        write(&certificate, &self.pem);
        write(&key, &self.key_pem);
        (certificate, key)
    }

    /// Returns the configuration of a client that trusts only this certificate.
    pub(crate) fn client(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.clone()).expect("the certificate is valid");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let mut config =
            builder.expect("ring supports the version").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be generated")
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::write(path, text).expect("the file can be written");
}
