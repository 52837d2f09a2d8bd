//! Creating, changing, deleting and showing users, and the ACL file.

use std::cell::Cell;

use wire::request::Args;

use super::super::{Grammar, Selector};
use super::{ADMIN, EVERYWHERE};
use crate::command::Command;
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

pub(super) const SETUSER: Command = Command::keyless(
    "setuser",
    -3,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Creates or modifies an ACL user.")
        .complexity("O(N) where N is the number of rules provided")
        .history(&[
            ("6.2.0", "Added rules for channels."),
            ("7.0.0", "Added selectors, and separate rules for reading and writing keys."),
            ("9.1.0", "Added rules for databases."),
        ])
        .args(&[Arg::string("username"), Arg::string("rule").optional().multiple()]),
    set_user,
)
.tips(EVERYWHERE);

fn set_user(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (name, rules): (&[u8], Vec<&[u8]>) = (args.at(2), args.tail(3).iter().collect());
    let grammar = Grammar::of(ctx.config, ctx.session.login.user.catalogue());
    ctx.host.change_users(&|users| users.with_rules(name, &rules, grammar))?;
    ctx.report.needs_barrier = true;
    Ok(reply.ok())
}

pub(super) const DELUSER: Command = Command::keyless(
    "deluser",
    -3,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Deletes ACL users, and closes their connections.")
        .complexity("O(N) where N is the number of users.")
        .args(&[Arg::string("username").multiple()]),
    delete_users,
)
.tips(EVERYWHERE);

fn delete_users(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let names: Vec<&[u8]> = args.tail(2).iter().collect();
    let deleted = Cell::new(0);
    ctx.host.change_users(&|users| {
        let (left, count) = users.without(&names)?;
        deleted.set(count);
        Ok(left)
    })?;
    ctx.report.needs_barrier = true;
    Ok(reply.integer(deleted.get() as i64))
}

pub(super) const LOAD: Command = Command::keyless(
    "load",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Replaces the users by those of the ACL file.")
        .complexity("O(N) where N is the number of configured users."),
    |ctx, _, reply| {
        check_file(ctx)?;
        ctx.host.load_users()?;
        ctx.report.needs_barrier = true;
        Ok(reply.ok())
    },
);

pub(super) const SAVE: Command = Command::keyless(
    "save",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Writes the users to the ACL file.")
        .complexity("O(N) where N is the number of configured users."),
    |ctx, _, reply| {
        check_file(ctx)?;
        ctx.host.save_users()?;
        Ok(reply.ok())
    },
)
.tips(EVERYWHERE);

fn check_file(ctx: &Ctx<'_>) -> Result<(), CommandError> {
    if !ctx.config.aclfile.is_empty() {
        return Ok(());
    }
    Err(CommandError::new(
        "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in \
         the configuration.",
    ))
}

pub(super) const USERS: Command = Command::keyless(
    "users",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the names of all ACL users.")
        .complexity("O(N) where N is the number of users"),
    |ctx, _, reply| {
        let users = ctx.host.users();
        let mut out = reply.array(users.iter().len());
        users.iter().for_each(|user| out.bulk(user.name()));
        Ok(out.done())
    },
);

pub(super) const LIST: Command = Command::keyless(
    "list",
    2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the rules of all ACL users in the format of ACL files.")
        .complexity("O(N) where N is the number of users"),
    |ctx, _, reply| {
        let lines = ctx.host.users().lines();
        let mut out = reply.array(lines.len());
        lines.iter().for_each(|line| out.bulk(&[b"user ", &line[..]].concat()));
        Ok(out.done())
    },
);

pub(super) const GETUSER: Command = Command::keyless(
    "getuser",
    3,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the rules of an ACL user.")
        .complexity("O(N) where N is the number of the user's rules")
        .history(&[
            ("6.2.0", "Added rules for channels."),
            ("7.0.0", "Added selectors; keys and channels are shown as rules."),
            ("9.1.0", "Added rules for databases."),
        ])
        .args(&[Arg::string("username")]),
    user,
);

fn user(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let users = ctx.host.users();
    let Some(user) = users.find(args.at(2)) else { return Ok(reply.null()) };
    let (flags, selectors) = (user.flags(), user.selectors());
    let mut out = reply.map(7);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.passwords().len());
    user.passwords().iter().for_each(|password| out.bulk(password.to_hex().as_bytes()));
    for (name, rules) in described(&selectors[0]) {
        out.bulk(name);
        out.bulk(&rules);
    }
    out.bulk(b"selectors");
    out.array(selectors.len() - 1);
    for selector in &selectors[1..] {
        let parts = described(selector);
        out.map(parts.len());
        for (name, rules) in parts {
            out.bulk(name);
            out.bulk(&rules);
        }
    }
    Ok(out.done())
}

/// Returns the rules of a selector, grouped by their subject.
fn described(selector: &Selector) -> [(&'static [u8], Vec<u8>); 4] {
    [
        (b"commands", selector.command_rules()),
        (b"keys", selector.key_rules()),
        (b"channels", selector.channel_rules()),
        (b"databases", selector.database_rules()),
    ]
}
