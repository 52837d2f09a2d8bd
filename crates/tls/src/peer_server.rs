//! The check of the certificate of a server to which a connection is opened.
//!
//! As in Valkey, an authority must have signed it, and it must be valid now and for servers. Its names are not compared
//! with the address: nodes have certificates of one authority, and know each other by address.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// See the module documentation.
#[derive(Debug)]
pub struct PeerServer {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerServer {
    /// Returns the check with these authorities, of which it skips those that can't be used. `None`: none is left.
    pub(crate) fn new(authorities: &[CertificateDer<'static>], provider: &CryptoProvider) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        (!roots.is_empty()).then(|| Self::trusting(roots, provider))
    }

    /// Returns the check with these authorities.
    #[must_use]
    pub fn trusting(roots: RootCertStore, provider: &CryptoProvider) -> Self {
        Self { roots, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for PeerServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
