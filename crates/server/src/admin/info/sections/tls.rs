//! `tls`: the certificates of the TLS port.

use os::clock;
use sync::atomic::Ordering;
use tls::{CertificateSummary, Context};

use super::super::figure::{Figure, Value, figures};
use super::super::gathered::Gathered;

pub static FIGURES: &[Figure] = figures! { |all|
    /// The serial number of the server's certificate, or none.
    text "tls_server_cert_serial" = serial(all, Context::server_certificate);
    /// The time until the server's certificate expires.
    gauge "tls_server_cert_expires_in_seconds": Seconds = expires_in(all, Context::server_certificate);
    /// The serial number of the certificate for connections to others, or none.
    text "tls_client_cert_serial" = serial(all, Context::client_certificate);
    /// The time until this certificate expires.
    gauge "tls_client_cert_expires_in_seconds": Seconds = expires_in(all, Context::client_certificate);
    /// The serial number of the authority's certificate, or none.
    text "tls_ca_cert_serial" = serial(all, Context::authority);
    /// The time until the authority's certificate expires.
    gauge "tls_ca_cert_expires_in_seconds": Seconds = expires_in(all, Context::authority);
    /// The handshakes that failed.
    counter "tls_failed_handshakes" = all.shared.certificates.failed_handshakes.load(Ordering::Relaxed);
};

type Of = fn(&Context) -> Option<&CertificateSummary>;

fn serial<'g>(all: &'g Gathered<'_>, of: Of) -> &'g str {
    all.certificate(of).map_or("none", |certificate| &certificate.serial)
}

fn expires_in(all: &Gathered<'_>, of: Of) -> Value<'static> {
    let now = clock::unix_millis() / 1000;
    all.certificate(of).map_or(Value::Nothing(0), |certificate| (certificate.expires_at - now).max(0).into())
}
