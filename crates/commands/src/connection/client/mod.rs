//! `CLIENT`: state of the calling connection and of others.
//!
//! | file | holds |
//! |---|---|
//! | `itself.rs` | state of the calling connection |
//! | `others.rs` | listing, closing, pausing and unblocking connections |
//! | `filter.rs` | filters of `LIST` and `KILL` |
//! | `tracking.rs` | client-side caching |

mod filter;
mod itself;
mod others;
mod tracking;

pub(super) use itself::check_name;

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `CLIENT subcommand ...`
pub const COMMAND: Command = Command::container(
    "client",
    Doc::new(Group::Connection, "2.4.0", "Subcommands that inspect and control client connections.")
        .complexity("Depends on subcommand."),
    &[
        tracking::CACHING,
        itself::CAPA,
        itself::GETNAME,
        tracking::GETREDIR,
        help::command(Group::Connection, "5.0.0", run_help),
        itself::ID,
        itself::IMPORT_SOURCE,
        itself::INFO,
        others::KILL,
        others::LIST,
        itself::NO_EVICT,
        itself::NO_TOUCH,
        others::PAUSE,
        itself::REPLY,
        itself::SETINFO,
        itself::SETNAME,
        tracking::TRACKING,
        tracking::TRACKINGINFO,
        others::UNBLOCK,
        others::UNPAUSE,
    ],
);

/// Flags of subcommands about the calling connection.
const ITSELF: Flags =
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY).union(Flags::SESSION);

/// Flags of subcommands about others.
const OTHERS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);

fn run_help(_ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    help::answer(&COMMAND, reply)
}

/// Parses `ON` or `OFF`.
fn on_or_off(word: &[u8]) -> Result<bool, CommandError> {
    if word.eq_token("on") {
        Ok(true)
    } else if word.eq_token("off") {
        Ok(false)
    } else {
        Err(CommandError::SYNTAX)
    }
}
