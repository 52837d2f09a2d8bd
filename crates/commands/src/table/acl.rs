//! `ACL`, limited to the default user: the current user, users and categories; random passwords.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::table::NUMBERED;
use crate::word::Word;

/// `ACL subcommand ...`
pub const COMMAND: Command = Command::container(
    "acl",
    Doc::new(Group::Server, "6.0.0", "Subcommands for users and their permissions (ACL).")
        .complexity("Depends on subcommand."),
    &[
        CAT,
        refused("deluser", -3, "Deletes ACL users.").tips(EVERYWHERE),
        GENPASS,
        GETUSER,
        help::command(Group::Server, "6.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        LIST,
        refused("setuser", -3, "Creates or modifies an ACL user.").tips(EVERYWHERE),
        USERS,
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

fn cat(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
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
    let category = Categories::all()
        .iter_names()
        .find(|(name, _)| wanted.eq_token(name))
        .map(|(_, category)| category)
        .ok_or_else(|| CommandError::quote("ERR Unknown category '", wanted, "'"))?;
    let members: Vec<&str> = NUMBERED
        .iter()
        .filter(|(_, command)| command.categories().contains(category))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut out = reply.array(members.len());
    members.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(out.done())
}

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
    |ctx, _, reply| Ok(reply.bulk(ctx.session.user.as_bytes())),
);

const USERS: Command = Command::keyless(
    "users",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the names of all ACL users.")
        .complexity("O(N) where N is the number of users"),
    |_, _, reply| {
        let mut out = reply.array(1);
        out.bulk(b"default");
        Ok(out.done())
    },
);

const LIST: Command = Command::keyless(
    "list",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the rules of all ACL users in the format of ACL files.")
        .complexity("O(N) where N is the number of users"),
    |ctx, _, reply| {
        let password = match ctx.config.requirepass.reveal() {
            None => "nopass",
            Some(_) => "#<hidden>",
        };
        let mut out = reply.array(1);
        out.bulk(format!("user default on {password} ~* &* +@all").as_bytes());
        Ok(out.done())
    },
);

const GETUSER: Command = Command::keyless(
    "getuser",
    3,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the rules of an ACL user.")
        .complexity("O(N) where N is the number of the user's rules")
        .args(&[Arg::string("username")]),
    get_user,
);

fn get_user(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.at(2) != b"default" {
        return Ok(reply.null());
    }
    let flags: &[&[u8]] = match ctx.config.requirepass.reveal() {
        None => &[b"on", b"nopass"],
        Some(_) => &[b"on"],
    };
    let mut out = reply.map(7);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag));
    out.bulk(b"passwords");
    out.array(0);
    for (name, rule) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*"), ("databases", "alldbs")] {
        out.bulk(name.as_bytes());
        out.bulk(rule.as_bytes());
    }
    out.bulk(b"selectors");
    out.array(0);
    Ok(out.done())
}

const fn refused(name: &'static str, arity: i32, summary: &'static str) -> Command {
    const ARGS: &[Arg] = &[Arg::string("username")];
    let doc = Doc::new(Group::Server, "6.0.0", summary).args(ARGS);
    Command::keyless(name, arity, ADMIN, doc, |_, _, _| {
        Err(CommandError::new("ERR This version of Broadloom supports only the default user"))
    })
}
