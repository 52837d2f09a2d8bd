//! A simulated network: sockets between the threads of one process, with delays, splits and losses that a seed
//! decides.
//!
//! - Servers use it through the ordinary [`Reactor`](crate::Reactor): [`Listener`](crate::Listener) and
//!   [`Socket`](crate::Socket) hold places in it, and the io_uring backend runs on a simulated kernel
//!   (`uring/simulated.rs`).
//! - Clients use [`Peer`], which blocks in virtual time.
//! - A [`Network`] is the extension of a [`Scheduler`](sync::simulation::Scheduler): one per simulation, for
//!   any number of servers.
//!
//! Owns the sockets, the descriptors and the bytes in flight. Never uses the real network.
//! Invariants:
//! 1. The network's lock is not held at a scheduling point: all calls to the scheduler precede it.
//! 2. Bytes of one direction arrive once and in order. Bytes sent before a reset may be lost; later ones are
//!    lost.
//! 3. Every change that a waiter may depend on sets its [`Notice`].

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

/// A change notification for a waiter. It has no scheduling point, so that conditions may read it.
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
