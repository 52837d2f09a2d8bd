//! Listening sockets: TCP and unix.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use crate::accept_error::is_transient;
use crate::descriptor::Descriptor;
use crate::socket::{Socket, set_keepalive, set_nodelay};
use crate::{PeerAddress, sys};

/// Whether several sockets may listen on one port and share its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReusePort {
    /// A second listener on the address is an error.
    No,
    /// `SO_REUSEPORT`.
    Yes,
}

/// A listening socket, non-blocking and closed on exec.
#[derive(Debug)]
pub struct Listener(Descriptor);

impl Listener {
    /// Listens on an address, with `SO_REUSEADDR`. An IPv6 socket accepts no IPv4 connections, so that both
    /// families can be bound to one port. The kernel limits `backlog` to `net.core.somaxconn`.
    pub fn tcp(address: SocketAddr, backlog: u32, reuse_port: ReusePort) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(network) = crate::simulated::Network::current() {
            return network.listen(address).map(|descriptor| Self(Descriptor::Simulated(descriptor)));
        }
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let socket = sys::stream_socket(family)?;
        let fd = socket.as_raw_fd();
        if address.is_ipv6() {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if reuse_port == ReusePort::Yes {
            sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        sys::bind(fd, address)?;
        sys::listen(fd, backlog_of(backlog))?;
        Ok(Self(Descriptor::Kernel(socket)))
    }

    /// Listens on a path, after removing a stale socket of an earlier server. Any other kind of file there is
    /// an error. `mode`, if given, is set on the path.
    pub fn unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) | Err(_) => {}
        }
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        sys::listen(listener.as_raw_fd(), backlog_of(backlog))?;
        if let Some(mode) = mode {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        Ok(Self(Descriptor::Kernel(listener.into())))
    }

    /// Sets `TCP_NODELAY` and keepalive (see [`Socket::set_keepalive`](crate::Socket::set_keepalive)) for all
    /// future connections: on Linux they inherit these options, which saves five system calls each.
    pub fn set_inherited_options(&self, keepalive_seconds: u32) -> io::Result<()> {
        set_nodelay(&self.0)?;
        set_keepalive(&self.0, keepalive_seconds)
    }

    /// Marks the packets of this socket and of future connections (`SO_MARK`). Requires `CAP_NET_ADMIN`.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.0.set_option(libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
    }

    /// The bound address, with the port that the kernel chose if port 0 was requested.
    pub fn local_address(&self) -> io::Result<PeerAddress> {
        self.0.local_name()
    }

    /// Stops listening at once, regardless of other handles of the socket; the address can be bound again.
    pub fn shut_down(&self) {
        // Fails only if the socket is not listening, which is the desired state.
        let _ = self.0.shut_down(libc::SHUT_RDWR);
    }

    /// Whether the socket has stopped listening.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        !self.0.is_listening()
    }

    /// Whether an error of [`Self::tcp`] means that this machine has no such family of addresses.
    #[must_use]
    pub fn is_of_unsupported_family(error: &io::Error) -> bool {
        let errors = [
            libc::EAFNOSUPPORT,
            libc::EPFNOSUPPORT,
            libc::EPROTONOSUPPORT,
            libc::ESOCKTNOSUPPORT,
            libc::ENOPROTOOPT,
        ];
        error.raw_os_error().is_some_and(|error| errors.contains(&error))
    }

    /// Accepts a connection that waits in the queue, beside the reactor that accepts from it. `None`: there is none, or
    /// none can be accepted now.
    #[must_use]
    pub fn accept_waiting(&self) -> Option<(Socket, PeerAddress)> {
        loop {
            match self.0.accept() {
                Ok((descriptor, peer)) => return Some((Socket::new(descriptor), peer)),
                // The next one in the queue may be fine.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock && is_transient(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// Another handle of this listening socket, for another reactor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.number()
    }
}

fn backlog_of(backlog: u32) -> libc::c_int {
    libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX)
}

impl From<Listener> for OwnedFd {
    /// The result is still non-blocking. Panics in a simulation.
    fn from(listener: Listener) -> Self {
        listener.0.into_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::{Listener, ReusePort};

    #[test]
    fn both_families_share_a_port() {
        let four = Listener::tcp("127.0.0.1:0".parse().unwrap(), 511, ReusePort::No).unwrap();
        let address = four.local_address().unwrap().tcp().unwrap();
        let port = address.port();
        match Listener::tcp(format!("[::1]:{port}").parse().unwrap(), 511, ReusePort::No) {
            Ok(six) => assert_eq!(six.local_address().unwrap().tcp().unwrap().port(), port),
            Err(error) => eprintln!("skipped the IPv6 half: {error}"),
        }
        let taken = Listener::tcp(address, 511, ReusePort::No);
        assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        four.set_inherited_options(300).unwrap();
    }

    #[test]
    fn another_handle_accepts_the_connections_that_wait() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 511, ReusePort::No).unwrap();
        let other = listener.try_clone().unwrap();
        assert!(other.accept_waiting().is_none());
        let client = TcpStream::connect(listener.local_address().unwrap().tcp().unwrap()).unwrap();
        let (socket, peer) = other.accept_waiting().unwrap();
        assert_eq!(peer.tcp(), client.local_addr().ok());
        assert_eq!(socket.local_address().unwrap().tcp(), client.peer_addr().ok());
        assert!(listener.accept_waiting().is_none());
    }

    #[test]
    fn a_stale_unix_socket_is_replaced_and_a_file_is_not() {
        let directory = std::env::temp_dir().join(format!("reactor-listener-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("socket");
        drop(Listener::unix(&path, None, 511).unwrap());
        let _again = Listener::unix(&path, Some(0o700), 511).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        UnixStream::connect(&path).unwrap();

        let file = directory.join("file");
        std::fs::write(&file, "precious").unwrap();
        Listener::unix(&file, None, 511).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
