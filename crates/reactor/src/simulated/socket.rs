//! A descriptor of the simulated process.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::{Network, Watched};
use crate::PeerAddress;

/// An entry in the network's descriptor table; closed when dropped.
pub(crate) struct Descriptor {
    network: Arc<Network>,
    number: i32,
}

impl Descriptor {
    pub(crate) fn new(network: Arc<Network>, number: i32) -> Self {
        Self { network, number }
    }

    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    pub(crate) fn signal(&self) {
        if let Some(Watched::Event(event)) = self.network.watched(self.number) {
            self.network.signal(event);
        }
    }

    pub(crate) fn shut_down(&self, how: libc::c_int) -> io::Result<()> {
        self.network.shut_down(self.number, how, now_ns())
    }

    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.network.take_error(self.number, now_ns())
    }

    pub(crate) fn peer_name(&self) -> io::Result<PeerAddress> {
        let addresses = self.network.addresses(self.number);
        let peer = addresses.and_then(|(_, peer)| peer).ok_or(io::ErrorKind::NotConnected)?;
        Ok(PeerAddress::Tcp(peer))
    }

    pub(crate) fn local_name(&self) -> io::Result<PeerAddress> {
        let (own, _) = self.network.addresses(self.number).ok_or(io::ErrorKind::NotConnected)?;
        Ok(PeerAddress::Tcp(own))
    }

    pub(crate) fn accept(&self) -> io::Result<Self> {
        let Some(Watched::Listener(listener)) = self.network.watched(self.number) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let number = self.network.accept(listener, now_ns())?;
        Ok(Self { network: Arc::clone(&self.network), number })
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.network.is_listening(self.number)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let number = self.network.duplicate(self.number)?;
        Ok(Self { network: Arc::clone(&self.network), number })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.network.close(self.number, now_ns());
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Descriptor").field(&self.number).finish()
    }
}

/// The current virtual time; 0 after the end of the simulation, when no thread waits any more.
pub(super) fn now_ns() -> u64 {
    sync::simulation::monotonic_ns().unwrap_or(0)
}
