//! Configurations of outbound connections.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, WantsVerifier,
};

/// TLS versions supported for inbound and outbound connections.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

/// Builds a configuration that trusts these authorities.
#[must_use]
pub fn trusting(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder(ring::default_provider()).with_root_certificates(roots)
}

/// Returns a configuration that accepts every certificate.
#[must_use]
pub fn unverified() -> ClientConfig {
    let provider = ring::default_provider();
    builder(provider.clone())
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        .with_no_client_auth()
}

fn builder(provider: CryptoProvider) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    builder.with_protocol_versions(&VERSIONS).expect("ring implements both versions")
}

/// Verifier that accepts every certificate, provided that the server has the matching private key.
#[derive(Debug)]
struct AcceptAnyCertificate(CryptoProvider);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
