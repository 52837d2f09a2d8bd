//! The progress of a session's `MIGRATE` request, which runs once for each step: see `serialization/migrate.rs`.

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

    /// Whether it belongs to this request. If not, an earlier request was refused before its last step and left it.
    #[must_use]
    pub fn is_of(&self, request: Args<'_>) -> bool {
        self.request.args().iter().eq(request.iter())
    }
}
