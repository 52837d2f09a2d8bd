//! The network of a simulation: sockets between the threads of one process, with delays, cuts and losses that a seed decides.
//!
//! - Servers use it through the ordinary [`Reactor`](crate::Reactor): [`Listener`](crate::Listener) and
//!   [`Socket`](crate::Socket) hold places of it, and the io_uring backend runs on a simulated kernel (`uring/simulated.rs`).
//! - Clients use [`Peer`], which blocks in virtual time.
//! - A [`Network`] is the extension of a [`Scheduler`](sync::simulation::Scheduler): one a simulation, for any number of servers.
//!
//! Owns the sockets, the descriptors and the bytes on their way. Never touches the real network.
//! Invariants:
//! 1. The network's lock is held for no scheduling point: all that is asked of the scheduler is asked before.
//! 2. Bytes of one direction arrive in order, each once; what was sent before a reset may be lost, what follows is.
//! 3. Every change that a waiter may want to see sets its [`Notice`].

mod network;
mod peer;
mod settings;
mod socket;

pub use network::Network;
pub use peer::Peer;
pub use settings::Settings;

pub(crate) use network::{Readiness, Watched};
pub(crate) use socket::Descriptor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// That something has changed for one who waits. No scheduling point, so that conditions may read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notice(Arc<AtomicBool>);

impl Notice {
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_given(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
