//! TLS between the load generator and the servers.
//!
//! Owns the clients' settings ([`Encryption`]), the certificate of servers that the benchmark starts (`issued`), the
//! check that accepts any certificate (`verifier`), and the stream below all connections (`socket`).
//!
//! As in the command-line clients of Redis and Valkey, a certificate must come from a trusted authority, and the name in
//! it does not matter: servers are often reached by an address that no certificate names.

pub mod issued;
pub mod socket;
mod verifier;

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tls::PeerServer;

use crate::encryption::issued::Issued;
use crate::encryption::socket::Socket;
use crate::error::BenchError;

/// The user's choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionOptions {
    /// File with the certificates of trusted authorities.
    pub authorities: Option<PathBuf>,
    /// Files of the clients' certificate and of its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Whether any certificate of a server is accepted.
    pub is_insecure: bool,
    /// Whether the benchmark starts servers, which then need a certificate.
    pub starts_servers: bool,
}

/// Settings of encrypted connections. Immutable, shared by all load threads.
#[derive(Debug)]
pub struct Encryption {
    client: Arc<ClientConfig>,
    issued: Option<Issued>,
}

impl Encryption {
    /// Reads the files of the options. Makes a certificate if the benchmark starts servers.
    pub fn new(options: &EncryptionOptions) -> Result<Self, BenchError> {
        let issued = if options.starts_servers {
            Some(Issued::new().map_err(BenchError::environment("making a certificate"))?)
        } else {
            None
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = if options.is_insecure {
            verifier::anything(&provider)
        } else {
            let files = options.authorities.iter().map(PathBuf::as_path);
            let roots = roots(files.chain(issued.as_ref().map(Issued::authority)))?;
            Arc::new(PeerServer::trusting(roots, &provider))
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BenchError::usage(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut client = match &options.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates("--cert", certificate)?, private_key(key)?)
                .map_err(|error| BenchError::usage(format!("--cert, --key: {error}")))?,
        };
        // Each connection makes a full handshake: with a resumed session the server would omit most of it.
        client.resumption = Resumption::disabled();
        Ok(Self { client: Arc::new(client), issued })
    }

    /// Returns the files for started servers.
    #[must_use]
    pub fn issued(&self) -> Option<&Issued> {
        self.issued.as_ref()
    }

    /// Does the handshake on a connected, blocking stream.
    pub fn connect(&self, stream: TcpStream) -> io::Result<Socket> {
        Socket::encrypted(stream, Arc::clone(&self.client))
    }
}

fn roots<'a>(files: impl Iterator<Item = &'a Path>) -> Result<RootCertStore, BenchError> {
    let mut roots = RootCertStore::empty();
    for file in files {
        for authority in certificates("--cacert", file)? {
            let added = roots.add(authority);
            added.map_err(|error| BenchError::usage(format!("--cacert: '{}': {error}", file.display())))?;
        }
    }
    if roots.is_empty() {
        return Err(BenchError::usage(
            "--tls needs --cacert FILE to check the servers' certificates, or --insecure to accept any",
        ));
    }
    Ok(roots)
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let text = read(option, file)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match parsed {
        Ok(found) if found.is_empty() => {
            Err(BenchError::usage(format!("{option}: no certificate in '{}'", file.display())))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(BenchError::usage(format!("{option}: '{}': {error}", file.display()))),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, BenchError> {
    let text = read("--key", file)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| BenchError::usage(format!("--key: '{}': {error}", file.display())))
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>, BenchError> {
    std::fs::read(file).map_err(|error| BenchError::usage(format!("{option}: '{}': {error}", file.display())))
}
