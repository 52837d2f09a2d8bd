//! TLS between the tool and the servers. A certificate must come from a trusted authority; its names do not matter. The link
//! between the servers has their own settings.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tls::PeerServer;

use crate::error::MigrateError;

/// Reads the certificates of trusted authorities (`--cacert`), and the tool's own certificate and key.
pub fn settings(
    authorities: Option<&Path>,
    own: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, MigrateError> {
    let Some(authorities) = authorities else {
        return Err(MigrateError::usage(
            "rediss:// needs --cacert FILE to check the certificates of the servers",
        ));
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("--cacert", authorities)? {
        let added = roots.add(authority);
        added.map_err(|error| {
            MigrateError::usage(format!("--cacert: '{}': {error}", authorities.display()))
        })?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(PeerServer::trusting(roots, &provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| MigrateError::usage(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let client = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates("--cert", certificate)?, private_key(key)?)
            .map_err(|error| MigrateError::usage(format!("--cert, --key: {error}")))?,
    };
    Ok(Arc::new(client))
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, MigrateError> {
    let text = read(option, file)?;
    let refuse = |reason: String| MigrateError::usage(format!("{option}: '{}': {reason}", file.display()));
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| refuse(error.to_string()))?;
    if found.is_empty() { Err(refuse("no certificate in the file".to_owned())) } else { Ok(found) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, MigrateError> {
    PrivateKeyDer::from_pem_slice(&read("--key", file)?)
        .map_err(|error| MigrateError::usage(format!("--key: '{}': {error}", file.display())))
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>, MigrateError> {
    std::fs::read(file)
        .map_err(|error| MigrateError::usage(format!("{option}: '{}': {error}", file.display())))
}
