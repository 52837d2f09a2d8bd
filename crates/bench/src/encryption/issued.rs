//! The certificate of servers that the benchmark starts: files in a temporary directory, removed with the value.

use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Names that the servers are reached by.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// An authority for one run of the benchmark, and a certificate of it.
#[derive(Debug)]
pub struct Issued {
    /// Deletes the files. Only this user can read them.
    _directory: TempDir,
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Issued {
    /// Makes the keys and certificates and writes the files.
    pub fn new() -> io::Result<Self> {
        let directory = TempDir::with_prefix("broadloom-bench-tls-")?;
        let Texts { authority, certificate, key } = Texts::new().map_err(io::Error::other)?;
        let write = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        let authority = write("authority.crt", authority)?;
        let certificate = write("server.crt", certificate)?;
        let key = write("server.key", key)?;
        Ok(Self { _directory: directory, authority, certificate, key })
    }

    /// Returns the file of the authority's certificate.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// Returns the file of the servers' certificate.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Returns the file of the servers' key.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }
}

/// The contents of the files, PEM.
struct Texts {
    authority: String,
    certificate: String,
    key: String,
}

impl Texts {
    fn new() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "broadloom bench");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = CertificateParams::new(NAMES.map(str::to_owned))?;
        server.distinguished_name.push(DnType::CommonName, "server of broadloom bench");
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
