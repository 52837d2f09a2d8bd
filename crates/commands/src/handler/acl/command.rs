//! `ACL`: `users.rs` has the subcommands that change and show users, `denials.rs` the denial log and `ACL DRYRUN`.
//!
//! The commands that rules name are those of the session's user ([`User::catalogue`](super::User::catalogue)), so that
//! nothing here depends on the command table.

mod denials;
mod users;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::help;
use crate::reply::{Replied, Reply};

/// `ACL subcommand ...`
pub const COMMAND: Command = Command::container(
    "acl",
    Doc::new(Group::Server, "6.0.0", "Subcommands for users and their permissions (ACL).")
        .complexity("Depends on subcommand."),
    &[
        CAT,
        users::DELUSER,
        denials::DRYRUN,
        GENPASS,
        users::GETUSER,
        help::command(Group::Server, "6.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        users::LIST,
        users::LOAD,
        denials::LOG,
        users::SAVE,
        users::SETUSER,
        users::USERS,
        WHOAMI,
    ],
);

const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const FLAGS: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
const ADMIN: Flags = FLAGS.union(Flags::ADMIN);

const CAT: Command = Command::keyless(
    "cat",
    -2,
    FLAGS,
    Doc::new(Group::Server, "6.0.0", "Returns the ACL categories, or the commands of one category.")
        .complexity("O(1) since the categories and commands are a fixed set.")
        .args(&[Arg::string("category").optional()]),
    cat,
);

fn cat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(wanted) = args.get(2) else {
        let mut out = reply.array(Categories::all().iter().count());
        for (name, _) in Categories::all().iter_names() {
            out.bulk(name.to_ascii_lowercase().as_bytes());
        }
        return Ok(out.done());
    };
    if args.len() > 3 {
        return Err(help::wrong_subcommand("ACL", args.at(1)));
    }
    let category = Categories::by_name(wanted).ok_or_else(|| {
        let shown = up_to_nul(wanted);
        CommandError::quote("ERR Unknown category '", &shown[..shown.len().min(QUOTE_SIZE_MAX)], "'")
    })?;
    let catalogue = ctx.session.login.user.catalogue();
    let members = catalogue.ids().filter(|id| catalogue.command(*id).categories().contains(category));
    let members: Vec<&str> = members.map(|id| catalogue.name(id)).collect();
    let mut out = reply.array(members.len());
    members.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(out.done())
}

/// The maximum part of an unknown category that the error quotes, in bytes.
const QUOTE_SIZE_MAX: usize = 128;

const GENPASS: Command = Command::keyless(
    "genpass",
    -2,
    FLAGS,
    Doc::new(Group::Server, "6.0.0", "Returns a random password in hexadecimal.")
        .args(&[Arg::integer("bits").optional()]),
    genpass,
);

/// Default number of bits of a password.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

fn genpass(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        return Err(help::wrong_subcommand("ACL", args.at(1)));
    }
    let bits = match args.get(2) {
        None => PASSWORD_BITS,
        Some(text) => parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?,
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(CommandError::new(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digit_count = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digit_count.div_ceil(2)];
    ctx.host.fill_with_secrets(&mut bytes)?;
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(digit_count);
    Ok(reply.bulk(digits.as_bytes()))
}

const WHOAMI: Command = Command::keyless(
    "whoami",
    2,
    FLAGS,
    Doc::new(Group::Server, "6.0.0", "Returns the user name of the connection."),
    |ctx, _, reply| Ok(reply.bulk(ctx.session.login.user.name())),
);
