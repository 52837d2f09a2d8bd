//! The settings from which a [`Context`](crate::Context) is made: the values of the `tls-*` directives.

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked for one.
    #[default]
    None,
    /// A client may have none; one that it has must be valid.
    Optional,
    /// A client without a valid one is refused.
    Required,
}

/// The values of the directives. An empty text: not set. By default none is, and sessions are not resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The server's certificate chain, PEM.
    pub cert_file: String,
    /// The private key of `cert_file`, PEM.
    pub key_file: String,
    /// The password of `key_file`.
    pub key_file_pass: Option<Vec<u8>>,
    /// The certificate chain for connections that the server opens.
    pub client_cert_file: String,
    /// The private key of `client_cert_file`.
    pub client_key_file: String,
    /// The password of `client_key_file`.
    pub client_key_file_pass: Option<Vec<u8>>,
    /// The certificates of authorities that peers' certificates are checked with.
    pub ca_cert_file: String,
    /// A directory of such files.
    pub ca_cert_dir: String,
    /// Whether the server opens connections with TLS, which requires authorities.
    pub opens_connections: bool,
    /// Whether clients need a certificate.
    pub client_certificates: ClientCertificates,
    /// Versions, separated by spaces.
    pub protocols: String,
    /// Cipher suites of TLS 1.2, as an OpenSSL cipher list.
    pub ciphers: String,
    /// Cipher suites of TLS 1.3, separated by colons.
    pub ciphersuites: String,
    /// Whether the server's order of cipher suites counts, and not the client's.
    pub prefer_server_ciphers: bool,
    /// Whether clients can resume sessions.
    pub session_caching: bool,
    /// The maximum number of sessions that clients can resume.
    pub session_cache_size: usize,
    /// How long a session can be resumed, in seconds.
    pub session_cache_timeout_seconds: u64,
}
