//! Files of certificates and keys, and why they can't be used.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate;

/// The largest file that is read, in bytes: bundles of authorities have some hundreds of kilobytes.
const FILE_SIZE_MAX: u64 = 16 << 20;

const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// Why a [`Context`](crate::Context) can't be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// `tls-cert-file` is not set.
    #[error("No tls-cert-file configured!")]
    NoCertificate,
    /// `tls-key-file` is not set.
    #[error("No tls-key-file configured!")]
    NoKey,
    /// Certificates of clients or servers can't be checked.
    #[error(
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster or tls-auth-clients are enabled!"
    )]
    NoAuthorities,
    /// A certificate can't be used.
    #[error("Failed to load certificate: {path}: {reason}")]
    Certificate {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A key can't be used.
    #[error("Failed to load private key: {path}: {reason}")]
    Key {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The authorities can't be used.
    #[error("Failed to configure CA certificate(s) file/directory: {path}: {reason}")]
    Authorities {
        /// The file or directory.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A word of `tls-protocols` is unknown.
    #[error("Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and 'TLSv1.3'.")]
    Protocols,
    /// `tls-protocols` names only versions that are not offered.
    #[error(
        "Invalid tls-protocols specified: TLSv1 and TLSv1.1 are not offered. Use 'TLSv1.2' or 'TLSv1.3'."
    )]
    OldProtocols,
    /// `tls-ciphers` selects nothing.
    #[error("Failed to configure ciphers: {0}")]
    Ciphers(String),
    /// `tls-ciphersuites` selects nothing, or has an unknown word.
    #[error("Failed to configure ciphersuites: {0}")]
    Ciphersuites(String),
    /// The settings contradict each other.
    #[error("Failed to configure TLS: {0}")]
    Settings(rustls::Error),
}

/// Reads a certificate chain.
pub(crate) fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let failed = |reason: String| LoadError::Certificate { path: path.to_owned(), reason };
    let bytes = read(Path::new(path)).map_err(|error| failed(error.to_string()))?;
    let chain = parse_certificates(&bytes).map_err(|error| failed(error.to_string()))?;
    if chain.is_empty() {
        return Err(failed("no certificate in the file".to_owned()));
    }
    match chain.iter().find_map(certificate::old_version) {
        Some(version) => Err(failed(format!("the certificate is of X.509 version {version}; 3 is needed"))),
        None => Ok(chain),
    }
}

/// Reads a private key, which may be encrypted (PKCS #8).
pub(crate) fn private_key(path: &str, password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, LoadError> {
    let failed = |reason: String| LoadError::Key { path: path.to_owned(), reason };
    let bytes = read(Path::new(path)).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    if let Some(encrypted) = section(&text, ENCRYPTED_LABEL) {
        let password =
            password.ok_or_else(|| failed("the key is encrypted: set tls-key-file-pass".to_owned()))?;
        return decrypt(encrypted, password).map_err(failed);
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        let advice =
            "the key is encrypted in a form that is not supported: convert it with 'openssl pkcs8 -topk8'";
        return Err(failed(advice.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => failed("no private key in the file".to_owned()),
        error => failed(error.to_string()),
    })
}

/// Returns the part of a PEM file with this label.
fn section<'text>(text: &'text str, label: &str) -> Option<&'text str> {
    let start = text.find(&format!("-----BEGIN {label}-----"))?;
    let last = format!("-----END {label}-----");
    let size = text[start..].find(&last)? + last.len();
    Some(&text[start..start + size])
}

fn decrypt(pem: &str, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let (_, document) = SecretDocument::from_pem(pem).map_err(|error| error.to_string())?;
    let encrypted =
        EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|error| error.to_string())?;
    let key = encrypted
        .decrypt(password)
        .map_err(|_| "the password is wrong, or the encryption unknown".to_owned())?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec())))
}

/// Reads the certificates of authorities. In a directory, files without a certificate are skipped.
pub(crate) fn authorities(file: &str, directory: &str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let mut found = Vec::new();
    if !file.is_empty() {
        let failed = |reason: String| LoadError::Authorities { path: file.to_owned(), reason };
        let bytes = read(Path::new(file)).map_err(|error| failed(error.to_string()))?;
        found.extend(parse_certificates(&bytes).map_err(|error| failed(error.to_string()))?);
        if found.is_empty() {
            return Err(failed("no certificate in the file".to_owned()));
        }
    }
    if !directory.is_empty() {
        let failed = |error: io::Error| LoadError::Authorities {
            path: directory.to_owned(),
            reason: error.to_string(),
        };
        for path in entries(directory).map_err(failed)? {
            let parsed = read(Path::new(&path)).ok().and_then(|bytes| parse_certificates(&bytes).ok());
            found.extend(parsed.unwrap_or_default());
        }
        // A link and its target hold the same certificate.
        found.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
        found.dedup();
    }
    Ok(found)
}

/// The paths in a directory, sorted, without hidden ones.
fn entries(directory: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path().to_string_lossy().into_owned());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns a hash of everything in these files and directories, which changes with them.
pub(crate) fn fingerprint(files: &[&str], directory: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &str| {
        path.hash(&mut hasher);
        let metadata = fs::metadata(path).ok();
        let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        (metadata.map(|metadata| metadata.len()), modified, read(Path::new(path)).ok()).hash(&mut hasher);
    };
    files.iter().filter(|path| !path.is_empty()).for_each(|path| add(path));
    if !directory.is_empty() {
        entries(directory).unwrap_or_default().iter().for_each(|path| add(path));
    }
    hasher.finish()
}

/// Reads a regular file: reading a pipe would wait.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > FILE_SIZE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file, or too large"));
    }
    fs::read(path)
}

fn parse_certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(bytes).collect()
}
