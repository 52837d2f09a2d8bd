//! The descriptor of a socket, listener or eventfd: the kernel's, or a place in a simulated network.
//!
//! Owns the descriptor, and closes it when dropped. Independent of reactors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::{PeerAddress, sys};

#[derive(Debug)]
pub(crate) enum Descriptor {
    Kernel(OwnedFd),
    #[cfg(feature = "simulation")]
    Simulated(crate::simulated::Descriptor),
}

/// Calls the kernel's function for a descriptor, or the simulated network's method.
macro_rules! query {
    ($descriptor:expr, $kernel:path, $method:ident $(, $argument:expr)*) => {
        match $descriptor {
            Descriptor::Kernel(fd) => $kernel(fd.as_raw_fd() $(, $argument)*),
            #[cfg(feature = "simulation")]
            Descriptor::Simulated(descriptor) => descriptor.$method($($argument),*),
        }
    };
}

impl Descriptor {
    /// Creates an eventfd.
    pub(crate) fn event() -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(network) = crate::simulated::Network::current() {
            return network.event().map(Self::Simulated);
        }
        sys::eventfd().map(Self::Kernel)
    }

    /// Adds one to an eventfd.
    pub(crate) fn signal(&self) {
        match self {
            Self::Kernel(fd) => sys::signal_eventfd(fd),
            #[cfg(feature = "simulation")]
            Self::Simulated(descriptor) => descriptor.signal(),
        }
    }

    /// The descriptor's number in the process.
    pub(crate) fn number(&self) -> RawFd {
        match self {
            Self::Kernel(fd) => fd.as_raw_fd(),
            #[cfg(feature = "simulation")]
            Self::Simulated(descriptor) => descriptor.number(),
        }
    }

    /// Shuts down one or both directions; `how` is one of `SHUT_*`.
    pub(crate) fn shut_down(&self, how: libc::c_int) -> io::Result<()> {
        query!(self, sys::shutdown, shut_down, how)
    }

    /// The pending error of a socket, which this clears.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        query!(self, sys::take_error, take_error)
    }

    pub(crate) fn peer_name(&self) -> io::Result<PeerAddress> {
        query!(self, sys::peer_name, peer_name)
    }

    pub(crate) fn local_name(&self) -> io::Result<PeerAddress> {
        query!(self, sys::local_name, local_name)
    }

    /// Accepts a connection from the queue of a listening socket, or returns `WouldBlock`.
    pub(crate) fn accept(&self) -> io::Result<(Self, PeerAddress)> {
        match self {
            Self::Kernel(fd) => sys::accept(fd.as_raw_fd()).map(|(fd, peer)| (Self::Kernel(fd), peer)),
            #[cfg(feature = "simulation")]
            Self::Simulated(descriptor) => {
                let accepted = descriptor.accept()?;
                let peer = accepted.peer_name()?;
                Ok((Self::Simulated(accepted), peer))
            }
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        query!(self, sys::is_listening, is_listening)
    }

    /// Sets a kernel socket option; ignored for a simulated socket.
    pub(crate) fn set_option(
        &self,
        level: libc::c_int,
        option: libc::c_int,
        value: libc::c_int,
    ) -> io::Result<()> {
        match self {
            Self::Kernel(fd) => sys::set_option(fd.as_raw_fd(), level, option, value),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Ok(()),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Kernel(fd) => fd.try_clone().map(Self::Kernel),
            #[cfg(feature = "simulation")]
            Self::Simulated(descriptor) => descriptor.try_clone().map(Self::Simulated),
        }
    }

    /// Returns the kernel's descriptor. Panics for a simulated one, which is unusable outside the simulation.
    pub(crate) fn into_fd(self) -> OwnedFd {
        match self {
            Self::Kernel(fd) => fd,
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => unreachable!("a simulated socket stays in its simulation"),
        }
    }
}
