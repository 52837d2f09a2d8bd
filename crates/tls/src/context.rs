//! Certificates, keys and rules, read from files once and then shared by connections.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::certificate::CertificateSummary;
use crate::ciphers;
use crate::files::{self, LoadError};
use crate::peer_server::PeerServer;
use crate::sessions::Sessions;
use crate::settings::{ClientCertificates, Settings};

/// Everything that a new connection needs. Immutable: a change of the settings makes a new one, and connections keep
/// theirs.
pub struct Context {
    pub(crate) server: Arc<ServerConfig>,
    /// For connections that the server opens; `None`: there are no authorities to check their peers with.
    pub(crate) client: Option<Arc<ClientConfig>>,
    server_certificate: Option<CertificateSummary>,
    client_certificate: Option<CertificateSummary>,
    authority: Option<CertificateSummary>,
}

impl Context {
    /// Reads the files and checks that they match.
    ///
    /// # Errors
    /// The first file or setting that can't be used.
    pub fn load(settings: &Settings) -> Result<Self, LoadError> {
        if settings.cert_file.is_empty() {
            return Err(LoadError::NoCertificate);
        }
        if settings.key_file.is_empty() {
            return Err(LoadError::NoKey);
        }
        let checks_clients = settings.client_certificates != ClientCertificates::None;
        let checks_peers = checks_clients || settings.opens_connections;
        if checks_peers && settings.ca_cert_file.is_empty() && settings.ca_cert_dir.is_empty() {
            return Err(LoadError::NoAuthorities);
        }
        let versions = ciphers::versions(&settings.protocols)?;
        let provider = Arc::new(CryptoProvider {
            cipher_suites: ciphers::cipher_suites(&settings.ciphersuites, &settings.ciphers)?,
            ..ring::default_provider()
        });
        let chain = files::certificates(&settings.cert_file)?;
        let server_certificate = CertificateSummary::of(&chain[0]);
        let key = files::private_key(&settings.key_file, settings.key_file_pass.as_deref())?;
        let authorities = files::authorities(&settings.ca_cert_file, &settings.ca_cert_dir)?;
        let own = client_certificate(settings, &provider)?;
        let client_certificate = own.as_ref().and_then(|(chain, _)| CertificateSummary::of(&chain[0]));
        let (own_chain, own_key) = own.unwrap_or_else(|| (chain.clone(), key.clone_key()));
        let authority = CertificateSummary::of_first_to_expire(&authorities);
        let checker = PeerServer::new(&authorities, &provider);
        if settings.opens_connections && checker.is_none() {
            return Err(authorities_error(settings, &"no certificate of an authority can be used"));
        }
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(LoadError::Settings)?;
        let builder = match settings.client_certificates {
            ClientCertificates::None => builder.with_no_client_auth(),
            wanted => {
                let roots = roots(settings, authorities)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                let verifier = match wanted {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let failed =
                    |error: rustls::server::VerifierBuilderError| authorities_error(settings, &error);
                builder.with_client_cert_verifier(verifier.build().map_err(failed)?)
            }
        };
        let mut server = builder
            .with_single_cert(chain, key)
            .map_err(|error| pair_error(&error, &settings.cert_file, &settings.key_file))?;
        server.ignore_client_order = settings.prefer_server_ciphers;
        if settings.session_caching {
            let (count_max, seconds) = (settings.session_cache_size, settings.session_cache_timeout_seconds);
            server.session_storage = Arc::new(Sessions::new(count_max, seconds));
            server.send_tls13_tickets = 1;
        } else {
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        let client = match checker {
            None => None,
            Some(checker) => {
                let builder = ClientConfig::builder_with_provider(provider)
                    .with_protocol_versions(&versions)
                    .map_err(LoadError::Settings)?
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(checker));
                let mut client = builder
                    .with_client_auth_cert(own_chain, own_key)
                    .map_err(|error| pair_error(&error, &settings.cert_file, &settings.key_file))?;
                client.enable_sni = false;
                // Sessions are kept by the server's name, which is not known here.
                client.resumption = Resumption::disabled();
                Some(Arc::new(client))
            }
        };
        Ok(Self { server: Arc::new(server), client, server_certificate, client_certificate, authority })
    }

    /// Returns a hash that changes with the files that the settings name.
    #[must_use]
    pub fn fingerprint(settings: &Settings) -> u64 {
        let files = [
            &settings.cert_file[..],
            &settings.key_file,
            &settings.client_cert_file,
            &settings.client_key_file,
            &settings.ca_cert_file,
        ];
        files::fingerprint(&files, &settings.ca_cert_dir)
    }

    /// The configuration of connections that clients open, for protocols other than that of the TLS port.
    #[must_use]
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// The server's certificate.
    #[must_use]
    pub fn server_certificate(&self) -> Option<&CertificateSummary> {
        self.server_certificate.as_ref()
    }

    /// The certificate for connections that the server opens.
    #[must_use]
    pub fn client_certificate(&self) -> Option<&CertificateSummary> {
        self.client_certificate.as_ref()
    }

    /// The authority whose certificate expires first.
    #[must_use]
    pub fn authority(&self) -> Option<&CertificateSummary> {
        self.authority.as_ref()
    }
}

/// Reads the certificate and key for connections that the server opens, if they are set.
fn client_certificate(
    settings: &Settings,
    provider: &CryptoProvider,
) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, LoadError> {
    if settings.client_cert_file.is_empty() || settings.client_key_file.is_empty() {
        return Ok(None);
    }
    let chain = files::certificates(&settings.client_cert_file)?;
    let key = files::private_key(&settings.client_key_file, settings.client_key_file_pass.as_deref())?;
    CertifiedKey::from_der(chain.clone(), key.clone_key(), provider)
        .map_err(|error| pair_error(&error, &settings.client_cert_file, &settings.client_key_file))?;
    Ok(Some((chain, key)))
}

fn roots(settings: &Settings, authorities: Vec<CertificateDer<'static>>) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        match roots.add(authority) {
            Ok(()) => {}
            // Directories and bundles of a system have certificates of all ages.
            Err(_) if settings.ca_cert_file.is_empty() => {}
            Err(error) => return Err(authorities_error(settings, &error)),
        }
    }
    Ok(roots)
}

fn authorities_error(settings: &Settings, error: &dyn std::fmt::Display) -> LoadError {
    let path = if settings.ca_cert_file.is_empty() { &settings.ca_cert_dir } else { &settings.ca_cert_file };
    LoadError::Authorities { path: path.clone(), reason: error.to_string() }
}

/// The error of a certificate and its key that can't be used together, in these files.
fn pair_error(error: &rustls::Error, certificate_path: &str, key_path: &str) -> LoadError {
    let key_error = |reason: String| LoadError::Key { path: key_path.to_owned(), reason };
    match error {
        rustls::Error::InconsistentKeys(_) => key_error("the key is not that of the certificate".to_owned()),
        rustls::Error::InvalidCertificate(_) => {
            LoadError::Certificate { path: certificate_path.to_owned(), reason: error.to_string() }
        }
        error => key_error(error.to_string()),
    }
}
