//! `COMMAND`: the command table for clients.
//!
//! | file | holds |
//! |---|---|
//! | `info.rs` | `COMMAND`, `COMMAND INFO`: properties used for dispatch |
//! | `docs.rs` | `COMMAND DOCS`: documentation |
//! | `keys.rs` | `COMMAND GETKEYS`, `GETKEYSANDFLAGS` |
//! | `list.rs` | `COMMAND LIST` |
//! | `rendered.rs` | cached replies about all commands |

mod docs;
mod info;
mod keys;
mod list;
mod rendered;

use crate::command::{Categories, Command, Flags};
use crate::doc::{Doc, Group};
use crate::help;
use crate::table::COMMANDS;

/// `COMMAND [subcommand ...]`
pub const COMMAND: Command = Command {
    arity: -1,
    flags: FLAGS,
    categories: Categories::CONNECTION,
    tips: ORDER,
    run: info::all,
    ..Command::container(
        "command",
        Doc::new(Group::Server, "2.8.13", "Returns details of all commands.")
            .complexity("O(N) where N is the number of commands"),
        &[
            Command::keyless(
                "count",
                2,
                FLAGS,
                Doc::new(Group::Server, "2.8.13", "Returns the number of commands."),
                |_, _, reply| Ok(reply.integer(COMMANDS.len() as i64)),
            )
            .add_categories(Categories::CONNECTION),
            docs::DOCS,
            keys::GETKEYS,
            keys::GETKEYSANDFLAGS,
            help::command(Group::Server, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply))
                .add_categories(Categories::CONNECTION),
            info::INFO,
            list::LIST,
        ],
    )
};

const FLAGS: Flags = Flags::LOADING.union(Flags::STALE);
const ORDER: &[&str] = &["nondeterministic_output_order"];
