//! Listing, closing, pausing and unblocking connections.

use std::time::Duration;

use wire::number::parse_i64_strict;
use wire::request::Args;

use super::ADMINISTRATION_FLAGS;
use super::filter::{FilterContext, KILL_DOC, LIST_DOC, SkipMe, parse};
use crate::command::{Access, Categories, Command};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::host::ClientFilter;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;

/// `CLIENT LIST [criterion value ...]`
pub const LIST: Command = Command::keyless(
    "list",
    -2,
    ADMINISTRATION_FLAGS,
    Doc::new(
        Group::Connection,
        "2.4.0",
        "Returns one line for each connection, or for each one that matches the filters.",
    )
    .complexity("O(N) where N is the number of client connections")
    .history(&[
        ("2.8.12", "Gives the `id`."),
        ("5.0.0", "Takes `TYPE`."),
        ("6.0.0", "Gives the `user`."),
        ("6.2.0", "Gives `argv-mem`, `tot-mem`, `laddr` and `redir`; takes `ID`."),
        ("7.0.0", "Gives `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "Gives `ssub`."),
        ("8.0.0", "`TYPE` also accepts `primary` for `master`."),
        ("8.1.0", "Takes `USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`."),
        ("9.0.0", "Takes the other filters and their negations."),
    ])
    .args(LIST_DOC),
    list,
)
.access(Access::Connections)
.add_categories(Categories::CONNECTION)
.tips(&["nondeterministic_output"]);

fn list(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() == 3 {
        return Err(CommandError::SYNTAX);
    }
    let filter = parse_filter(ctx, args, SkipMe::No)?;
    ctx.host.publish(ctx.session);
    Ok(reply.verbatim(b"txt", &ctx.host.client_list(&filter, ctx.session)))
}

/// `CLIENT KILL address`, `CLIENT KILL criterion value ...`
pub const KILL: Command = Command::keyless(
    "kill",
    -3,
    ADMINISTRATION_FLAGS,
    Doc::new(Group::Connection, "2.4.0", "Closes the connections that match an address or filters.")
        .complexity("O(N) where N is the number of client connections")
        .history(&[
            ("2.8.12", "Takes filters."),
            ("2.8.12", "Takes `ID`."),
            ("3.2.0", "`TYPE` may be `master`."),
            ("5.0.0", "`TYPE` also accepts `replica` for `slave`."),
            ("6.2.0", "Takes `LADDR`."),
            ("8.0.0", "Takes `MAXAGE`."),
            ("8.0.0", "`TYPE` also accepts `primary` for `master`."),
            ("8.1.0", "`ID` takes several IDs."),
            ("9.0.0", "Takes the other filters of `CLIENT LIST`."),
        ])
        .args(&[Arg::one_of(
            "filter",
            &[
                Arg::string("old-format").shown("ip:port").deprecated("2.8.12"),
                Arg::one_of("new-format", KILL_DOC).multiple(),
            ],
        )]),
    kill,
)
.add_categories(Categories::CONNECTION);

fn kill(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let is_old_form = args.len() == 3;
    let filter = if is_old_form {
        let mut filter = ClientFilter::default();
        filter.keep.address = Some(args.at(2).to_vec());
        filter
    } else {
        parse_filter(ctx, args, SkipMe::Yes)?
    };
    ctx.host.publish(ctx.session);
    let (count, includes_own) = ctx.host.client_kill(&filter, ctx.session);
    if includes_own {
        ctx.session.flags.insert(SessionFlags::CLOSE_AFTER_REPLY);
    }
    match (is_old_form, count) {
        (true, 0) => Err(CommandError::new("ERR No such client")),
        (true, _) => Ok(reply.ok()),
        (false, _) => Ok(reply.integer(count as i64)),
    }
}

fn parse_filter(ctx: &Ctx<'_>, args: Args<'_>, skip: SkipMe) -> Result<ClientFilter, CommandError> {
    let users = ctx.host.users();
    parse(
        args,
        2,
        skip,
        FilterContext { own_id: ctx.session.id, db_count: ctx.config.databases, users: &users },
    )
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`
pub const PAUSE: Command = Command::keyless(
    "pause",
    -3,
    ADMINISTRATION_FLAGS,
    Doc::new(Group::Connection, "3.0.0", "Suspends the commands of all connections, or only their writes.")
        .history(&[("6.2.0", "Takes WRITE and ALL.")])
        .args(&[
            Arg::integer("timeout"),
            Arg::one_of("mode", &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")])
                .optional()
                .since("6.2.0"),
        ]),
    pause,
)
.add_categories(Categories::CONNECTION);

fn pause(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let writes_only = match args.get(3).map(|word| up_to_nul(word).to_ascii_lowercase()).as_deref() {
        None | Some(b"all") => false,
        Some(b"write") if args.len() == 4 => true,
        _ => return Err(CommandError::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let ms = parse_i64_strict(args.at(2))
        .ok_or(CommandError::new("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(CommandError::new("ERR timeout is negative"));
    }
    ctx.now().0.checked_add(ms).ok_or(CommandError::new("ERR timeout is out of range"))?;
    ctx.host.client_pause(Duration::from_millis(ms.unsigned_abs()), writes_only)?;
    ctx.report.needs_barrier = true;
    Ok(reply.ok())
}

/// `CLIENT UNPAUSE`
pub const UNPAUSE: Command = Command::keyless(
    "unpause",
    2,
    ADMINISTRATION_FLAGS,
    Doc::new(Group::Connection, "6.2.0", "Resumes the connections that CLIENT PAUSE suspended.")
        .complexity("O(N) where N is the number of paused clients"),
    |ctx, _, reply| {
        ctx.host.client_unpause();
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION);

/// `CLIENT UNBLOCK client-id [TIMEOUT|ERROR]`
pub const UNBLOCK: Command = Command::keyless(
    "unblock",
    -3,
    ADMINISTRATION_FLAGS,
    Doc::new(Group::Connection, "5.0.0", "Unblocks a connection that waits in a blocking command.")
        .complexity("O(log N) where N is the number of client connections")
        .args(&[
            Arg::integer("client-id"),
            Arg::one_of("unblock-type", &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")])
                .optional(),
        ]),
    unblock,
)
.add_categories(Categories::CONNECTION);

fn unblock(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    // As in Redis, the reason is ignored if other arguments follow.
    let with_error = match args
        .get(3)
        .filter(|_| args.len() == 4)
        .map(|word| up_to_nul(word).to_ascii_lowercase())
        .as_deref()
    {
        None | Some(b"timeout") => false,
        Some(b"error") => true,
        Some(_) => return Err(CommandError::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let was_blocked = u64::try_from(id).is_ok_and(|id| ctx.host.client_unblock(id, with_error));
    // Its worker has sent its reply and counted its request by then.
    ctx.report.needs_barrier |= was_blocked;
    Ok(reply.flag(was_blocked))
}
