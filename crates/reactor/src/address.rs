//! The address of the other end of a connection, printed as Redis prints it.

use std::fmt;
use std::net::SocketAddr;

/// The address of one end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IPv4 or IPv6 address and port.
    Tcp(SocketAddr),
    /// A unix socket. Its clients have no address; Redis prints the listener's path and port 0.
    Unix,
}

impl PeerAddress {
    /// The IP address and port of a TCP socket.
    #[must_use]
    pub fn tcp(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(address),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for PeerAddress {
    /// `127.0.0.1:6379`, `[::1]:6379`, or `unix:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(SocketAddr::V4(address)) => write!(f, "{}:{}", address.ip(), address.port()),
            Self::Tcp(SocketAddr::V6(address)) => write!(f, "[{}]:{}", address.ip(), address.port()),
            Self::Unix => f.write_str("unix:0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PeerAddress;

    #[test]
    fn prints_as_redis_does() {
        let check = |address: &str| {
            let parsed = PeerAddress::Tcp(address.parse().unwrap());
            assert_eq!(parsed.to_string(), address);
        };
        check("127.0.0.1:6379");
        check("[::1]:6379");
        check("[2001:db8::5]:1");
        assert_eq!(PeerAddress::Unix.to_string(), "unix:0");
    }
}
