//! Certificates and keys of the TLS port, and of connections to other servers: read when the configuration changes or their
//! files do, taken by new connections.
//! Running connections keep those with which they began.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use config::{Config, Id, TlsAuthClients};
use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use tls::{ClientCertificates, Context, LoadError, Settings};

use super::current_config::CurrentConfig;

/// See the module documentation.
#[derive(Default)]
pub struct Certificates {
    context: ArcSwapOption<Context>,
    /// The fingerprint of the files from which the context was made.
    fingerprint: AtomicU64,
    /// Whether a thread compares the files.
    is_checking: AtomicBool,
    /// When the files were last read or compared.
    checked_at: AtomicI64,
    /// Handshakes that failed.
    pub failed_handshakes: AtomicU64,
}

/// Whether the certificates and keys are read again when this directive changes.
#[must_use]
pub fn concerns_tls(id: Id) -> bool {
    id.name().starts_with("tls-")
        && !matches!(id, Id::tls_auth_clients_user | Id::tls_auto_reload_interval | Id::tls_dh_params_file)
}

impl Certificates {
    /// The context in force; `None`: no connection uses TLS.
    #[must_use]
    pub fn context(&self) -> Option<Arc<Context>> {
        self.context.load_full()
    }

    /// Replaces the context in force.
    pub fn set(&self, context: Option<Arc<Context>>) {
        self.context.store(context);
    }

    fn load(&self, settings: &Settings) -> Result<(), LoadError> {
        // Before the files are read: a change in the meantime is found by the next comparison.
        let fingerprint = Context::fingerprint(settings);
        self.set(Some(Arc::new(Context::load(settings)?)));
        self.fingerprint.store(fingerprint, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the certificates and keys of this configuration, if connections use TLS.
    ///
    /// # Errors
    /// If they can't be used: the context in force stays.
    pub fn load_of(&self, config: &Config) -> Result<(), LoadError> {
        if !uses_tls(config) {
            self.set(None);
            return Ok(());
        }
        self.checked_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
        self.load(&settings(config))
    }

    /// Compares the files, on a separate thread, `tls-auto-reload-interval` seconds after the last time.
    pub fn check(&'static self, current: &'static CurrentConfig, now: Uptime) {
        let config = current.load();
        let interval_ms = i64::from(config.tls_auto_reload_interval) * 1000;
        if !uses_tls(&config)
            || interval_ms == 0
            || now.to_raw() - self.checked_at.load(Ordering::Relaxed) < interval_ms
            || self.is_checking.swap(true, Ordering::Relaxed)
        {
            return;
        }
        self.checked_at.store(now.to_raw(), Ordering::Relaxed);
        let body = move || {
            self.reload(current);
            self.is_checking.store(false, Ordering::Relaxed);
        };
        if let Err(error) = sync::thread::Builder::new().name("broadloom-certs".to_owned()).spawn(body) {
            log::warn!("Can't start the thread that checks the TLS files: {error}");
            self.is_checking.store(false, Ordering::Relaxed);
        }
    }

    /// Reads the certificates and keys again if their files have changed.
    fn reload(&self, current: &CurrentConfig) {
        let settings_before = settings(&current.load());
        let fingerprint = Context::fingerprint(&settings_before);
        if fingerprint == self.fingerprint.load(Ordering::Relaxed) {
            log::trace!("TLS reload skipped: materials unchanged");
            return;
        }
        log::info!("TLS materials changed, reloading in background");
        let context = match Context::load(&settings_before) {
            Ok(context) => context,
            Err(error) => return log::warn!("Background TLS reload failed: {error}"),
        };
        let _setting = current.lock_changes();
        let config = current.load();
        // Otherwise CONFIG SET has read the files in the meantime.
        if uses_tls(&config) && settings(&config) == settings_before {
            self.set(Some(Arc::new(context)));
            self.fingerprint.store(fingerprint, Ordering::Relaxed);
            log::info!("TLS materials reloaded successfully");
        }
    }
}

/// Whether connections of clients, to other nodes or of the admin port use TLS.
fn uses_tls(config: &Config) -> bool {
    let is_admin_port_encrypted = config.admin_port != 0 && config.admin_tls;
    is_admin_port_encrypted || config.tls_port != 0 || config.tls_cluster || config.tls_replication
}

/// The values of the directives.
fn settings(config: &Config) -> Settings {
    Settings {
        cert_file: config.tls_cert_file.clone(),
        key_file: config.tls_key_file.clone(),
        key_file_pass: config.tls_key_file_pass.reveal().map(<[u8]>::to_vec),
        client_cert_file: config.tls_client_cert_file.clone(),
        client_key_file: config.tls_client_key_file.clone(),
        client_key_file_pass: config.tls_client_key_file_pass.reveal().map(<[u8]>::to_vec),
        ca_cert_file: config.tls_ca_cert_file.clone(),
        ca_cert_dir: config.tls_ca_cert_dir.clone(),
        opens_connections: config.tls_cluster || config.tls_replication,
        client_certificates: match config.tls_auth_clients {
            TlsAuthClients::No => ClientCertificates::None,
            TlsAuthClients::Optional => ClientCertificates::Optional,
            TlsAuthClients::Yes => ClientCertificates::Required,
        },
        protocols: config.tls_protocols.clone(),
        ciphers: config.tls_ciphers.clone(),
        ciphersuites: config.tls_ciphersuites.clone(),
        prefer_server_ciphers: config.tls_prefer_server_ciphers,
        session_caching: config.tls_session_caching,
        session_cache_size: config.tls_session_cache_size as usize,
        session_cache_timeout_seconds: u64::from(config.tls_session_cache_timeout),
    }
}
