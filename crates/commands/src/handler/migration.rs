//! The `MIGRATE` that a session has begun: what its request has done so far. The request runs once for each step, see
//! `serialization/migrate.rs`.

use keyspace::Watching;
use wire::request::{Args, ArgsBuf};

use crate::host::Transfer;

/// A `MIGRATE` under way.
pub struct Migration {
    request: ArgsBuf,
    /// The transfer.
    pub transfer: Box<dyn Transfer>,
    /// The keys that were sent, as indexes of arguments.
    pub sent: Vec<u32>,
    /// The keys that are to be deleted if they are unchanged; `None`: they stay, or nothing is sent yet.
    pub watching: Option<Watching>,
}

impl Migration {
    /// The migration of a request, which sends nothing yet.
    #[must_use]
    pub fn new(request: Args<'_>, transfer: Box<dyn Transfer>) -> Self {
        Self { request: request.iter().collect(), transfer, sent: Vec::new(), watching: None }
    }

    /// Whether it is that of a request. Otherwise it was left by a request that was refused before its end.
    #[must_use]
    pub fn is_of(&self, request: Args<'_>) -> bool {
        self.request.args().iter().eq(request.iter())
    }
}
