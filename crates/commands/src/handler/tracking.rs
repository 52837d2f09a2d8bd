//! Client-side caching: the tracking state of a connection.
//!
//! Plain data of one connection. The keyspace keeps the readers of each key; see [`Ctx::record_reads`].

use std::sync::Arc;

use crate::command::Flags;
use crate::context::Ctx;
use crate::session::{Session, SessionFlags};

/// The options of `CLIENT TRACKING ON` and `CLIENT CACHING`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// ID of the connection that receives the invalidations; 0: this one.
    pub redirect: u64,
    /// Which reads are tracked.
    pub mode: TrackingMode,
    /// Whether `CLIENT CACHING` was called for the next command.
    pub caching: bool,
}

/// The destination of redirected invalidations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirection {
    /// ID of the connection that receives them.
    pub target: u64,
    /// Prefixes of the keys whose changes are all sent (`BCAST`).
    pub prefixes: Vec<Arc<[u8]>>,
    /// Omits changes by the tracking connection itself (`NOLOOP`).
    pub skips_own: bool,
}

/// Which of the keys that a connection reads are tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackingMode {
    /// All keys.
    #[default]
    All,
    /// Keys of commands after `CLIENT CACHING YES` (`OPTIN`).
    OptIn,
    /// Keys of all commands except after `CLIENT CACHING NO` (`OPTOUT`).
    OptOut,
}

impl Session {
    /// Whether the keys that the next command reads are tracked.
    #[must_use]
    pub fn tracks_reads(&self) -> bool {
        let Some(tracking) = self.tracking.as_ref().filter(|_| !self.broadcasts()) else { return false };
        match tracking.mode {
            TrackingMode::All => true,
            TrackingMode::OptIn => tracking.caching,
            TrackingMode::OptOut => !tracking.caching,
        }
    }

    /// Whether its invalidations go to another connection.
    #[must_use]
    pub fn redirects(&self) -> bool {
        self.tracking.as_ref().is_some_and(|tracking| tracking.redirect != 0)
    }

    /// Whether it receives all invalidations, regardless of its reads.
    #[must_use]
    pub fn broadcasts(&self) -> bool {
        self.flags.contains(SessionFlags::TRACKING_BCAST)
    }
}

impl Ctx<'_> {
    /// Records the session as a reader of the keys of the command that has just run, if it tracks them. The slots of
    /// the keys are write-latched, so no change happens between the read and the recording.
    pub fn record_reads(&mut self) {
        let is_read =
            self.command.flags.contains(Flags::READONLY) && !self.command.flags.contains(Flags::PUBSUB);
        if !is_read || !self.session.tracks_reads() {
            return;
        }
        for key in self.keys().filter(|key| !self.data.is_hidden(*key)).collect::<Vec<_>>() {
            // Expired keys are deleted first. Otherwise their later deletion would invalidate a key that the session
            // has just read as missing.
            self.data.expire_if_due(key);
            self.data.record_reader(key, self.session.id);
        }
    }
}
