//! Invalidations for client-side caching, as mail to other workers.

use std::sync::Arc;

use commands::subscriptions::Name;

use crate::connection::token::Token;

/// The fixed part of an invalidation's size in the mail, in bytes.
const OVERHEAD: usize = 256;

/// Changed keys, for one connection.
pub struct Invalidation {
    /// The last known token of the connection.
    pub to: Token,
    /// The client id of the connection.
    pub client: u64,
    /// The keys as an array; `None`: all keys.
    pub keys: Option<Arc<[u8]>>,
    /// Whether another connection has read them and redirects its invalidations here.
    pub is_redirected: bool,
    /// Whether the connection changed the keys itself.
    pub is_own_change: bool,
}

/// Keys with a prefix that changed in one turn of a worker.
pub struct Broadcast {
    /// The common prefix.
    pub prefix: Name,
    /// The keys, each with the client that changed it last.
    pub changed: Vec<(Arc<[u8]>, u64)>,
    /// All keys as an array.
    pub keys: Vec<u8>,
}

impl Invalidation {
    /// The bytes that it counts in transit.
    pub fn size(&self) -> u64 {
        (self.keys.as_ref().map_or(0, |keys| keys.len()) + OVERHEAD) as u64
    }
}

impl Broadcast {
    /// The bytes that it counts in transit.
    pub fn size(&self) -> u64 {
        (self.keys.len() + OVERHEAD) as u64
    }
}
