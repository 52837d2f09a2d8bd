//! The fields of certificates that the server uses: serial number and expiry for `INFO`, and names of users.

use const_oid::db::rfc4519::CN;
use const_oid::db::rfc5280::ID_CE_SUBJECT_ALT_NAME;
use rustls::pki_types::CertificateDer;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::{Certificate, Version};

/// A certificate as `INFO` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The end of its validity, in seconds of Unix time.
    pub expires_at: i64,
}

/// Returns the version of a certificate if it is older than version 3, the only one that TLS libraries still accept.
pub(crate) fn old_version(certificate: &CertificateDer<'_>) -> Option<u8> {
    match Certificate::from_der(certificate).ok()?.tbs_certificate().version() {
        Version::V1 => Some(1),
        Version::V2 => Some(2),
        Version::V3 => None,
    }
}

/// The names in a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The first common name of its subject.
    pub common_name: Option<Vec<u8>>,
    /// The URIs of its subject, in order.
    pub uris: Vec<Vec<u8>>,
}

impl CertificateSummary {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let parsed = certificate.tbs_certificate();
        let not_after = parsed.validity().not_after.to_unix_duration().as_secs();
        Some(Self {
            serial: hex(parsed.serial_number().as_bytes()),
            expires_at: i64::try_from(not_after).unwrap_or(i64::MAX),
        })
    }

    /// Returns the summary of the certificate that expires first.
    pub(crate) fn of_first_to_expire(certificates: &[CertificateDer<'_>]) -> Option<Self> {
        certificates.iter().filter_map(Self::of).min_by_key(|summary| summary.expires_at)
    }
}

impl Identity {
    /// Returns the names in a certificate; none where it can't be parsed.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = Certificate::from_der(certificate) else { return Self::default() };
        let parsed = certificate.tbs_certificate();
        let names = parsed.subject().iter();
        let common_name = names
            .filter(|name| name.oid == CN)
            .map(|name| name.value.value().to_vec())
            .find(|name| !name.is_empty());
        let alternatives = parsed
            .extensions()
            .into_iter()
            .flatten()
            .find(|extension| extension.extn_id == ID_CE_SUBJECT_ALT_NAME)
            .and_then(|extension| SubjectAltName::from_der(extension.extn_value.as_bytes()).ok());
        let uris = alternatives
            .iter()
            .flat_map(|names| names.0.iter())
            .filter_map(|name| match name {
                GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str().as_bytes().to_vec()),
                _ => None,
            })
            .filter(|uri| !uri.is_empty() && !uri.contains(&0))
            .collect();
        Self { common_name, uris }
    }
}

/// Hexadecimal digits as OpenSSL prints numbers: two for each byte, without leading zero bytes.
fn hex(number: &[u8]) -> String {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    match &number[start..] {
        [] => "0".to_owned(),
        digits => digits.iter().map(|byte| format!("{byte:02X}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_are_hexadecimal() {
        assert_eq!(hex(&[0, 0x8A, 1]), "8A01");
        assert_eq!(hex(&[0]), "0");
    }

    #[test]
    fn garbage_has_no_names() {
        let garbage = CertificateDer::from(vec![0x30, 0x82, 0xFF, 0xFF, 1]);
        assert_eq!(Identity::of(&garbage), Identity::default());
        assert_eq!(CertificateSummary::of(&garbage), None);
    }
}
