//! A connected stream socket that can move between threads, and its options.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::descriptor::Descriptor;
use crate::{PeerAddress, sys};

/// A connected stream socket: non-blocking, closed on exec, closed when dropped.
#[derive(Debug)]
pub struct Socket(Descriptor);

impl Socket {
    /// Wraps a descriptor that is already non-blocking.
    pub(crate) fn new(descriptor: Descriptor) -> Self {
        Self(descriptor)
    }

    /// Starts to connect to `address`, from the local address `source` if given, with `TCP_NODELAY`. The socket has
    /// room once it is connected, or has an error.
    pub(crate) fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(network) = crate::simulated::Network::current() {
            return network.begin_connect(address).map(|descriptor| Self(Descriptor::Simulated(descriptor)));
        }
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let fd = sys::stream_socket(family)?;
        if let Some(source) = source {
            sys::bind(fd.as_raw_fd(), SocketAddr::new(source, 0))?;
        }
        match sys::connect(fd.as_raw_fd(), address) {
            // After a signal, connecting continues.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
                Err(error)
            }
            _ => {
                let socket = Self(Descriptor::Kernel(fd));
                socket.set_nodelay()?;
                Ok(socket)
            }
        }
    }

    /// The number of its descriptor, as shown in `CLIENT LIST`.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.number()
    }

    /// Sends small segments at once (`TCP_NODELAY`). An error on a unix socket.
    pub fn set_nodelay(&self) -> io::Result<()> {
        set_nodelay(&self.0)
    }

    /// Lets the kernel gather small segments before it sends them: `TCP_NODELAY` off. An error on a unix socket.
    pub fn clear_nodelay(&self) -> io::Result<()> {
        self.0.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 0)
    }

    /// Makes the kernel probe an idle peer after `idle_seconds`, and end the connection after three probes a
    /// third of that apart, as Redis does for `tcp-keepalive`. 0 disables it.
    pub fn set_keepalive(&self, idle_seconds: u32) -> io::Result<()> {
        set_keepalive(&self.0, idle_seconds)
    }

    /// Sets the size of the kernel's send buffer, in bytes; the kernel doubles it. For tests and bulk
    /// transfers.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.0.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, clamp(size))
    }

    /// The peer's address. Fails if the peer has already disconnected.
    pub fn peer_address(&self) -> io::Result<PeerAddress> {
        self.0.peer_name()
    }

    /// The address of this end.
    pub fn local_address(&self) -> io::Result<PeerAddress> {
        self.0.local_name()
    }

    /// The error with which the connection has failed, once.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.0.take_error()
    }

    /// Half-closes: the peer reads end of file.
    pub(crate) fn shut_down_write(&self) -> io::Result<()> {
        self.0.shut_down(libc::SHUT_WR)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.number()
    }
}

impl TryFrom<TcpStream> for Socket {
    type Error = io::Error;

    fn try_from(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(Descriptor::Kernel(stream.into())))
    }
}

impl TryFrom<UnixStream> for Socket {
    type Error = io::Error;

    fn try_from(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(Descriptor::Kernel(stream.into())))
    }
}

impl From<Socket> for OwnedFd {
    /// The result is still non-blocking. Panics in a simulation.
    fn from(socket: Socket) -> Self {
        socket.0.into_fd()
    }
}

pub(crate) fn set_nodelay(socket: &Descriptor) -> io::Result<()> {
    socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

pub(crate) fn set_keepalive(socket: &Descriptor, idle_seconds: u32) -> io::Result<()> {
    socket.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, (idle_seconds > 0).into())?;
    if idle_seconds > 0 {
        socket.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, clamp(idle_seconds))?;
        socket.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, clamp((idle_seconds / 3).max(1)))?;
        socket.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)?;
    }
    Ok(())
}

fn clamp(value: u32) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::Socket;
    use crate::PeerAddress;

    #[test]
    fn sockets_report_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own_address = stream.local_addr().unwrap();
        let other = stream.try_clone().unwrap();
        let socket = Socket::try_from(stream).unwrap();
        socket.set_nodelay().unwrap();
        assert!(other.nodelay().unwrap());
        socket.clear_nodelay().unwrap();
        assert!(!other.nodelay().unwrap());
        socket.set_keepalive(300).unwrap();
        socket.set_keepalive(0).unwrap();
        assert_eq!(socket.peer_address().unwrap(), PeerAddress::Tcp(listener.local_addr().unwrap()));
        assert_eq!(socket.local_address().unwrap(), PeerAddress::Tcp(own_address));
    }

    #[test]
    fn a_unix_socket_has_no_address() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(Socket::try_from(one).unwrap().peer_address().unwrap(), PeerAddress::Unix);
    }
}
