//! The password of the admin port, as HTTP Basic authentication carries it. The user name is ignored.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// Whether the request has this password.
pub fn has_password(headers: &HeaderMap, password: &[u8]) -> bool {
    let Some(given) = headers.get(AUTHORIZATION).and_then(|value| basic_password(value.as_bytes())) else {
        return false;
    };
    given.ct_eq(password).into()
}

/// The password in the value of an `Authorization` header (RFC 7617).
fn basic_password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(credentials.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_headers() {
        let check = |value: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header value"));
            assert_eq!(has_password(&headers, b"se:cret"), expected, "{value}");
        };
        // `any:se:cret`, and its variants.
        check("Basic YW55OnNlOmNyZXQ=", true);
        check("basic  YW55OnNlOmNyZXQ= ", true);
        // `:se:cret`
        check("Basic OnNlOmNyZXQ=", true);
        // `any:secret`
        check("Basic YW55OnNlY3JldA==", false);
        // `se:cret` is the user `se` with the password `cret`.
        check("Basic c2U6Y3JldA==", false);
        check("Basic ====", false);
        check("Basic", false);
        check("Bearer YW55OnNlOmNyZXQ=", false);
        assert!(!has_password(&HeaderMap::new(), b""));
    }
}
