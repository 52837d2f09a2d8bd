//! Certificates for tests, and clients that use them.

#![allow(dead_code)] // Not every test uses all of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for `localhost` with this common name and these URIs.
    pub fn issue(&self, common_name: &str, uris: &[&str]) -> Issued {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Returns the configuration of a client that trusts this authority.
    pub fn client(&self, own: Option<&Issued>) -> Arc<ClientConfig> {
        self.client_of_version(own, rustls::ALL_VERSIONS)
    }

    pub fn client_of_version(
        &self,
        own: Option<&Issued>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }
}

/// A directory with the files of a server, removed with this value.
pub struct Files(pub PathBuf);

impl Files {
    /// Makes the directory, with `ca.crt`, `server.crt` and `server.key`.
    pub fn new(name: &str, authority: &Authority) -> Self {
        let path = std::env::temp_dir().join(format!("broadloom-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let files = Self(path);
        files.write("ca.crt", &authority.pem());
        files.put("server", &authority.issue("server", &[]));
        files
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Replaces a file.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(Path::new(&self.0).join(name), text).unwrap();
    }

    /// Writes a certificate and its key.
    pub fn put(&self, name: &str, issued: &Issued) {
        self.write(&format!("{name}.crt"), &issued.certificate);
        self.write(&format!("{name}.key"), &issued.key);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
