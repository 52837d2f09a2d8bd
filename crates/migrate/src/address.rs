//! Addresses of servers: `redis://[user[:password]@]host[:port][/]`, and `host:port`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

const PORT_DEFAULT: u16 = 6379;

/// Names that usual systems have for the machine itself.
const LOOPBACK_NAMES: [&str; 4] = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

/// A host and a port, as a server or this tool connects to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address, without the brackets of IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// The address of a server, with the login.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Whether the connection uses TLS (`rediss://`).
    pub is_encrypted: bool,
    /// User; the default user if absent.
    pub user: Option<String>,
    /// Password; no `AUTH` if absent.
    pub password: Option<String>,
    /// Where it listens.
    pub address: HostPort,
}

impl HostPort {
    /// Whether the address stands for the machine that uses it.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.to_ascii_lowercase();
        match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) => ip.is_loopback() || ip.is_unspecified(),
            Err(_) => host.ends_with(".localhost") || LOOPBACK_NAMES.contains(&host.as_str()),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) =
                    rest.split_once(']').ok_or_else(|| format!("'[' without ']' in '{text}'"))?;
                match after.strip_prefix(':') {
                    None if !after.is_empty() => return Err(format!("unexpected '{after}' in '{text}'")),
                    port => (host, port),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(format!("no host in '{text}'"));
        }
        let port = match port {
            None => PORT_DEFAULT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| format!("'{port}' is not a port (1 to 65535)"))?,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ServerUrl {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", if self.is_encrypted { "rediss" } else { "redis" })?;
        if let Some(user) = &self.user {
            for byte in user.bytes() {
                match char::from(byte) {
                    plain if plain.is_ascii_alphanumeric() || "-._~".contains(plain) => write!(f, "{plain}")?,
                    _ => write!(f, "%{byte:02X}")?,
                }
            }
            write!(f, "@")?;
        }
        write!(f, "{}", self.address)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error texts never contain the password.
impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            "expected redis://[user[:password]@]host[:port], or rediss:// for TLS".to_owned()
        })?;
        let is_encrypted = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            other => return Err(format!("unknown scheme '{other}': expected redis or rediss")),
        };
        let (login, place) =
            rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        let (place, path) = place.split_once('/').unwrap_or((place, ""));
        if !path.is_empty() {
            return Err(format!("'/{path}' after the port: all databases are moved, none can be chosen"));
        }
        let (user, password) = match login {
            None => (None, None),
            Some(login) => {
                let (user, password) =
                    login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
                (decoded(user)?, password.map(decoded).transpose()?.flatten())
            }
        };
        Ok(Self { is_encrypted, user, password, address: place.parse()? })
    }
}

/// Replaces `%XX`; `None` for an empty text.
fn decoded(text: &str) -> Result<Option<String>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("'%' in the user or password must be followed by two hexadecimal digits".to_owned());
        };
        bytes.push((high * 16 + low) as u8);
    }
    let text = String::from_utf8(bytes).map_err(|_| "the user or password is not UTF-8".to_owned())?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> (Option<String>, Option<String>, String) {
        let url: ServerUrl = text.parse().expect(text);
        (url.user, url.password, url.address.to_string())
    }

    #[test]
    fn urls_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(url("redis://a"), (None, None, "a:6379".into()));
        assert_eq!(url("redis://1.2.3.4:7000/"), (None, None, "1.2.3.4:7000".into()));
        assert_eq!(url("redis://:p%40%3a@a:1"), (None, some("p@:"), "a:1".into()));
        assert_eq!(url("redis://u:p@x@a:1"), (some("u"), some("p@x"), "a:1".into()));
        assert_eq!(url("valkey://u@[::1]:7"), (some("u"), None, "[::1]:7".into()));
        assert!("rediss://a".parse::<ServerUrl>().expect("valid").is_encrypted);
    }

    #[test]
    fn addresses_of_the_machine_itself_are_recognised() {
        let is_loopback = |host: &str| HostPort { host: host.into(), port: 1 }.is_loopback();
        for host in ["127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "LOCALHOST", "a.localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1", "::2", "notlocalhost", "localhost.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn invalid_urls_are_named_without_their_passwords() {
        for (text, words) in [
            ("a:6379", "expected redis://"),
            ("http://a", "unknown scheme 'http'"),
            ("redis://", "no host"),
            ("redis://u:hush@:1", "no host in ':1'"),
            ("redis://u:hush@a:x", "'x' is not a port"),
            ("redis://a:0", "'0' is not a port"),
            ("redis://a:70000", "'70000' is not a port"),
            ("redis://a/3", "'/3' after the port"),
            ("redis://u:hush%4@a", "two hexadecimal digits"),
            ("redis://[::1", "'[' without ']'"),
            ("redis://[::1]7", "unexpected '7'"),
        ] {
            let error = text.parse::<ServerUrl>().expect_err(text);
            assert!(error.contains(words) && !error.contains("hush"), "{error}");
        }
        let url: ServerUrl = "redis://u:hush@a".parse().expect("valid");
        assert_eq!(format!("{url} {url:?}"), "redis://u@a:6379 redis://u@a:6379");
    }
}
