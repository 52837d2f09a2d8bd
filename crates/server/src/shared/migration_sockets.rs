//! Connections to the targets of `MIGRATE`, cached for a while for the next one.
//!
//! A transfer takes a connection out, so none has two users. A connection is used only while the certificates are in force
//! with which it was opened.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use os::clock::Uptime;
use sync::Mutex;

use crate::links::LinkSocket;

/// Maximum number of cached connections. A further one replaces the oldest.
const SOCKET_COUNT_MAX: usize = 64;

/// How long a connection is cached without use, in milliseconds.
const UNUSED_MS_MAX: i64 = 10_000;

/// See the module documentation.
#[derive(Default)]
pub struct MigrationSockets {
    /// By the address of the target. In order, so that a simulation is repeatable.
    sockets: Mutex<BTreeMap<Vec<u8>, CachedSocket>>,
}

/// A connection to a target.
pub struct TargetSocket {
    /// The connection.
    pub socket: LinkSocket,
    /// The database that it has selected; `None`: unknown.
    pub db: Option<i64>,
    /// The certificates with which it was opened; `None`: without TLS.
    pub certificates: Option<Arc<tls::Context>>,
}

struct CachedSocket {
    socket: TargetSocket,
    used_at: Uptime,
}

impl MigrationSockets {
    /// Takes the connection to a target, if there is one with these certificates. Another one is closed.
    #[must_use]
    pub fn take(&self, target: &[u8], certificates: Option<&Arc<tls::Context>>) -> Option<TargetSocket> {
        let socket = self.lock().remove(target)?.socket;
        let is_valid = match (&socket.certificates, certificates) {
            (Some(own), Some(current)) => Arc::ptr_eq(own, current),
            (own, current) => own.is_none() && current.is_none(),
        };
        is_valid.then_some(socket)
    }

    /// Keeps a connection to a target.
    pub fn keep(&self, target: Vec<u8>, socket: TargetSocket, now: Uptime) {
        let mut sockets = self.lock();
        if sockets.len() >= SOCKET_COUNT_MAX
            && !sockets.contains_key(&target)
            && let Some(oldest) =
                sockets.iter().min_by_key(|(_, cached)| cached.used_at).map(|(name, _)| name.clone())
        {
            sockets.remove(&oldest);
        }
        sockets.insert(target, CachedSocket { socket, used_at: now });
    }

    /// Closes the connections that were not used for a while.
    pub fn close_unused(&self, now: Uptime) {
        self.lock().retain(|_, cached| now.ms_since(cached.used_at) <= UNUSED_MS_MAX);
    }

    /// The number of connections that are cached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> sync::MutexGuard<'_, BTreeMap<Vec<u8>, CachedSocket>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
