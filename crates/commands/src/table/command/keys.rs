//! `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`: the keys of a request, without running it.

use wire::request::Args;

use super::FLAGS;
use super::info::write_key_flags;
use crate::command::{Categories, Command, Find, Flags, KeyFlags, find_declared_keys, find_spec_keys};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::table::find;

const ARGS: &[Arg] = &[Arg::string("command"), Arg::string("arg").optional().multiple()];

/// `COMMAND GETKEYS command [arg ...]`
pub const GETKEYS: Command = Command::keyless(
    "getkeys",
    -3,
    FLAGS,
    Doc::new(Group::Server, "2.8.13", "Returns the keys of a command line.")
        .complexity("O(N) where N is the number of arguments of the request")
        .args(ARGS),
    |_, args, reply| {
        let keys = keys_of(args.tail(2))?;
        let mut out = reply.array(keys.len());
        keys.iter().for_each(|(key, _)| out.bulk(key));
        Ok(out.done())
    },
)
.add_categories(Categories::CONNECTION);

/// `COMMAND GETKEYSANDFLAGS command [arg ...]`
pub const GETKEYSANDFLAGS: Command = Command::keyless(
    "getkeysandflags",
    -3,
    FLAGS,
    Doc::new(Group::Server, "7.0.0", "Returns the keys of a command line with their access flags.")
        .complexity("O(N) where N is the number of arguments of the request")
        .args(ARGS),
    keys_and_flags,
)
.add_categories(Categories::CONNECTION);

fn keys_and_flags(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let keys = keys_of(args.tail(2))?;
    let mut out = reply.array(keys.len());
    for (key, flags) in keys {
        out.array(2);
        out.bulk(key);
        write_key_flags(&mut out, flags);
    }
    Ok(out.done())
}

/// Returns each key of a request with its flags.
fn keys_of(request: Args<'_>) -> Result<Vec<(&[u8], KeyFlags)>, CommandError> {
    let command = find(request).ok_or(CommandError::new("ERR Invalid command specified"))?;
    let specs = || command.keys.iter().filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY));
    if specs().next().is_none() {
        return Err(CommandError::new("ERR The command has no key arguments"));
    }
    if !command.accepts(request.len()) {
        return Err(CommandError::new("ERR Invalid number of arguments specified for command"));
    }
    let mut keys = Vec::new();
    let mut indexes = Vec::new();
    for spec in specs() {
        indexes.clear();
        let is_found = match spec.find {
            Find::KeyNum { .. } => find_declared_keys(spec, request, &mut indexes) && !indexes.is_empty(),
            _ => find_spec_keys(spec, request, &mut indexes),
        };
        if !is_found {
            return none_of(command);
        }
        let flags = spec.flags_of(request);
        keys.extend(indexes.iter().map(|index| (request.at(*index as usize), flags)));
    }
    if keys.is_empty() { none_of(command) } else { Ok(keys) }
}

/// Returns no keys, or the error of a command that requires keys.
fn none_of<'a>(command: &Command) -> Result<Vec<(&'a [u8], KeyFlags)>, CommandError> {
    if command.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Ok(Vec::new());
    }
    Err(CommandError::new("ERR Invalid arguments specified for command"))
}
