//! Versions and cipher suites by the names that OpenSSL has for them.
//!
//! Cipher lists: <https://docs.openssl.org/master/man1/openssl-ciphers/#cipher-list-format>.

use rustls::crypto::ring::cipher_suite as suites;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::files::LoadError;

/// A cipher suite of TLS 1.2: its name, and the keywords of lists that select it.
struct Tls12Suite {
    name: &'static str,
    keywords: &'static [&'static str],
    suite: SupportedCipherSuite,
}

/// Keywords that select all suites offered here.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDH", "ECDHE", "EECDH", "KECDHE", "KEECDH", "TLSV1.2", "AEAD", "FIPS"];

/// The suites of TLS 1.2 in order of preference.
const TLS12_SUITES: &[Tls12Suite] = &[
    Tls12Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        keywords: &["AES", "AES256", "AESGCM", "ECDSA", "AECDSA", "SHA384"],
        suite: suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Tls12Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        keywords: &["AES", "AES128", "AESGCM", "ECDSA", "AECDSA", "SHA256"],
        suite: suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Tls12Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        keywords: &["CHACHA20", "ECDSA", "AECDSA"],
        suite: suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Tls12Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        keywords: &["AES", "AES256", "AESGCM", "RSA", "ARSA", "SHA384"],
        suite: suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    },
    Tls12Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        keywords: &["AES", "AES128", "AESGCM", "RSA", "ARSA", "SHA256"],
        suite: suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    },
    Tls12Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        keywords: &["CHACHA20", "RSA", "ARSA"],
        suite: suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

/// The suites of TLS 1.3 in order of preference.
const TLS13_SUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suites::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suites::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", suites::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Returns the versions that `tls-protocols` names; empty: TLS 1.2 and 1.3.
pub(crate) fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, LoadError> {
    if text.is_empty() {
        return Ok(vec![&TLS13, &TLS12]);
    }
    let mut versions = Vec::new();
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.3" => versions.push(&TLS13),
            "tlsv1.2" => versions.push(&TLS12),
            // Named beside newer ones in many configurations.
            "tlsv1" | "tlsv1.1" => {}
            _ => return Err(LoadError::Protocols),
        }
    }
    if versions.is_empty() { Err(LoadError::OldProtocols) } else { Ok(versions) }
}

/// Returns the suites that `tls-ciphersuites` and `tls-ciphers` name. An empty text: all.
pub(crate) fn cipher_suites(tls13: &str, tls12: &str) -> Result<Vec<SupportedCipherSuite>, LoadError> {
    let mut chosen = tls13_suites(tls13)?;
    chosen.extend(tls12_suites(tls12)?);
    Ok(chosen)
}

fn tls13_suites(text: &str) -> Result<Vec<SupportedCipherSuite>, LoadError> {
    if text.is_empty() {
        return Ok(TLS13_SUITES.iter().map(|(_, suite)| *suite).collect());
    }
    let names: Vec<&str> = words(text).collect();
    // A suite that OpenSSL has and this library has not is skipped, if one remains.
    let find = |name: &&str| TLS13_SUITES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let chosen: Vec<_> = names.iter().filter_map(find).map(|(_, suite)| *suite).collect();
    let is_name = |name: &&str| name.to_ascii_uppercase().starts_with("TLS_");
    if chosen.is_empty() || !names.iter().all(is_name) {
        return Err(LoadError::Ciphersuites(text.to_owned()));
    }
    Ok(chosen)
}

fn tls12_suites(text: &str) -> Result<Vec<SupportedCipherSuite>, LoadError> {
    if text.is_empty() {
        return Ok(TLS12_SUITES.iter().map(|suite| suite.suite).collect());
    }
    let mut chosen: Vec<&Tls12Suite> = Vec::new();
    let mut killed: Vec<&str> = Vec::new();
    for word in words(text) {
        let (operation, word) = match word.chars().next() {
            Some(first @ ('!' | '-' | '+' | '@')) => (first, &word[1..]),
            _ => (' ', word),
        };
        let selected = TLS12_SUITES.iter().filter(|suite| suite.matches(word));
        match operation {
            // `@STRENGTH`, `@SECLEVEL=n`: the suites offered here satisfy every level in use.
            '@' => {}
            '!' | '-' => {
                let names: Vec<&str> = selected.map(|suite| suite.name).collect();
                chosen.retain(|suite| !names.contains(&suite.name));
                if operation == '!' {
                    killed.extend(names);
                }
            }
            '+' => {
                let (moved, kept) = chosen.iter().partition(|suite| suite.matches(word));
                chosen = kept;
                chosen.extend::<Vec<_>>(moved);
            }
            _ => {
                let added = selected.filter(|suite| !killed.contains(&suite.name));
                for suite in added {
                    if !chosen.iter().any(|known| known.name == suite.name) {
                        chosen.push(suite);
                    }
                }
            }
        }
    }
    if chosen.is_empty() {
        return Err(LoadError::Ciphers(text.to_owned()));
    }
    Ok(chosen.iter().map(|suite| suite.suite).collect())
}

impl Tls12Suite {
    /// Whether a word of a cipher list selects it: a name, a keyword, or keywords joined by `+`, all of which must match.
    fn matches(&self, word: &str) -> bool {
        !word.is_empty()
            && word.split('+').all(|part| {
                let part = part.to_ascii_uppercase();
                self.name == part || ALL.contains(&part.as_str()) || self.keywords.contains(&part.as_str())
            })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([':', ',', ';', ' ']).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> String {
        match tls12_suites(list) {
            Err(error) => error.to_string(),
            Ok(suites) => suites
                .iter()
                .map(|suite| TLS12_SUITES.iter().find(|known| known.suite == *suite).unwrap().name)
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    #[test]
    fn cipher_lists_select_as_in_openssl() {
        assert_eq!(names("").split(' ').count(), 6);
        assert_eq!(names("DEFAULT:-AES128-SHA256").split(' ').count(), 6);
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256"), "ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(names("HIGH:!aNULL:!MD5").split(' ').count(), 6);
        assert_eq!(
            names("CHACHA20+aRSA:AESGCM:!ECDSA"),
            "ECDHE-RSA-CHACHA20-POLY1305 ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256"
        );
        assert_eq!(
            names("RSA:+AES256:-CHACHA20:@STRENGTH"),
            "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384"
        );
        assert_eq!(names("!RSA:ALL:RSA").split(' ').count(), 3);
        assert_eq!(names("AES128-SHA256"), "Failed to configure ciphers: AES128-SHA256");
        assert_eq!(names(":"), "Failed to configure ciphers: :");
    }

    #[test]
    fn suites_of_tls_1_3_have_names() {
        assert_eq!(tls13_suites("").unwrap().len(), 3);
        assert_eq!(tls13_suites("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256").unwrap().len(), 1);
        tls13_suites("TLS_AES_128_CCM_SHA256").unwrap_err();
        tls13_suites("TLS_AES_128_GCM_SHA256:AES").unwrap_err();
    }

    #[test]
    fn old_versions_are_ignored_beside_new_ones() {
        let count = |text| versions(text).map(|versions| versions.len());
        assert_eq!(count("").unwrap(), 2);
        assert_eq!(count("TLSv1.2").unwrap(), 1);
        assert_eq!(count("tlsv1 TLSv1.1 TLSv1.2 TLSV1.3").unwrap(), 2);
        assert!(matches!(count("TLSv1 TLSv1.1"), Err(LoadError::OldProtocols)));
        assert!(matches!(count("SSLv3"), Err(LoadError::Protocols)));
    }
}
