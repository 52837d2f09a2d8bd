//! Client-side caching: how a connection is told what it may not keep any more.
//!
//! Plain data of one connection. Who has read what is in the keyspace; see [`Ctx::remember_reads`].

use crate::command::Flags;
use crate::context::Ctx;
use crate::session::{Session, SessionFlags};

/// What `CLIENT TRACKING ON` was given, and `CLIENT CACHING` after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Number of the connection that invalidations go to; 0: this one.
    pub redirect: u64,
    /// Which reads are remembered.
    pub choice: Choice,
    /// `CLIENT CACHING` was called for the next command.
    pub caching: bool,
}

/// Which of the keys that a connection reads are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All.
    #[default]
    All,
    /// Those of commands after `CLIENT CACHING YES` (`OPTIN`).
    OptIn,
    /// All but those of commands after `CLIENT CACHING NO` (`OPTOUT`).
    OptOut,
}

impl Session {
    /// Whether the keys that the next command reads are remembered.
    #[must_use]
    pub fn remembers_reads(&self) -> bool {
        let Some(tracking) = self.tracking.as_ref().filter(|_| !self.broadcasts()) else { return false };
        match tracking.choice {
            Choice::All => true,
            Choice::OptIn => tracking.caching,
            Choice::OptOut => !tracking.caching,
        }
    }

    /// Whether it is told of all changes, whatever it has read.
    #[must_use]
    pub fn broadcasts(&self) -> bool {
        self.flags.contains(SessionFlags::TRACKING_BCAST)
    }
}

impl Ctx<'_> {
    /// Remembers that the session has read the keys of the command that has just run, if it wants that. Their slots are
    /// held for writing: so nobody changes them in between.
    pub fn remember_reads(&mut self) {
        let is_read =
            self.command.flags.contains(Flags::READONLY) && !self.command.flags.contains(Flags::PUBSUB);
        if !is_read || !self.session.remembers_reads() {
            return;
        }
        for key in self.keys().filter(|key| !self.data.is_hidden(*key)).collect::<Vec<_>>() {
            // One whose time is over goes first: else its end would be told to those who have just seen it gone.
            self.data.expire_if_due(key);
            self.data.remember_reader(key, self.session.id);
        }
    }
}
