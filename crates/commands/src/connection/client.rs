//! `CLIENT`: state of the calling connection and of administration.
//!
//! | file | holds |
//! |---|---|
//! | `own_state.rs` | state of the calling connection |
//! | `administration.rs` | listing, closing, pausing and unblocking connections |
//! | `filter.rs` | filters of `LIST` and `KILL` |
//! | `tracking.rs` | client-side caching |

mod administration;
mod filter;
mod own_state;
mod tracking;

pub(super) use own_state::check_name;

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
        own_state::CAPA,
        own_state::GETNAME,
        tracking::GETREDIR,
        help::command(Group::Connection, "5.0.0", run_help).add_flags(Flags::KEEPS_CACHING),
        own_state::ID,
        own_state::IMPORT_SOURCE,
        own_state::INFO,
        administration::KILL,
        administration::LIST,
        own_state::NO_EVICT,
        own_state::NO_TOUCH,
        administration::PAUSE,
        own_state::REPLY,
        own_state::SETINFO,
        own_state::SETNAME,
        tracking::TRACKING,
        tracking::TRACKINGINFO,
        administration::UNBLOCK,
        administration::UNPAUSE,
    ],
);

/// Flags of subcommands about the calling connection.
const OWN_STATE_FLAGS: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::ALLOW_BUSY)
    .union(Flags::SESSION)
    .union(Flags::KEEPS_CACHING);

/// Flags of subcommands about other connections.
const ADMINISTRATION_FLAGS: Flags =
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::KEEPS_CACHING);

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
