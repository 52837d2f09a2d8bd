//! The flags of requests that run scripts, as the scripts declare them.

use commands::command::{Access, Flags};
use commands::session::Session;
use commands::table::ResolvedCommand;
use script::ScriptFlags;
use wire::request::Args;

use super::worker_scripts::WorkerScripts;
use crate::request::admission::queued_by;

impl WorkerScripts {
    /// The flags of a request: those of its command, or those that its script declares.
    pub fn flags_of(&self, found: ResolvedCommand, args: Args<'_>) -> Flags {
        match found.command.access {
            Access::Script { .. } => self.flags_of_script(found, args),
            _ => found.command.flags,
        }
    }

    /// Those of its command, until the script declares whether it writes, and whether it runs on a replica with old data.
    fn flags_of_script(&self, found: ResolvedCommand, args: Args<'_>) -> Flags {
        let flags = found.command.flags;
        match self.resolve_of(found, args).map(|code| code.flags()) {
            Ok(declared) if !declared.contains(ScriptFlags::WITHOUT_SHEBANG) => {
                let writes = !declared.contains(ScriptFlags::NO_WRITES);
                let is_stale = declared.contains(ScriptFlags::ALLOW_STALE);
                (flags - Flags::MAY_REPLICATE - if is_stale { Flags::empty() } else { Flags::STALE })
                    | if writes { Flags::WRITE } else { Flags::empty() }
            }
            Ok(_) => flags - Flags::STALE,
            Err(_) => flags,
        }
    }

    /// The flags of a request and of all requests of the transaction that it runs, as the scripts among them declare.
    pub fn declared_flags(&self, session: &Session, found: ResolvedCommand, args: Args<'_>) -> Flags {
        let queued = queued_by(session, found).map(|queued| self.flags_of(queued.found, queued.args));
        queued.fold(self.flags_of(found, args), Flags::union)
    }

    /// Whether a request, or one of the transaction that it runs, may change data. Some reads do, as `PFCOUNT`.
    pub fn may_change(&self, session: &Session, found: ResolvedCommand, args: Args<'_>) -> bool {
        self.declared_flags(session, found, args).intersects(Flags::WRITE | Flags::MAY_REPLICATE)
    }
}
