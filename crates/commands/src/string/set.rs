//! `SET`

use collections::ExpiryChange;
use wire::request::Args;

use super::assignment::{Assignment, assign, log_assignment, string_of};
use super::options::{OptionSet, SetOptions};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
/// [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time | KEEPTTL]`
pub const COMMAND: Command = Command {
    name: "set",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::BRIEF),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("Returns the value only with GET"),
        flags_of_request: Some(key_flags),
        ..KeySpec::first(
            KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE).union(KeyFlags::VARIABLE_FLAGS),
        )
    }],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "1.0.0",
        "Sets the string value of a key. A value of any type is overwritten.",
    )
    .complexity("O(1); with IFDEQ or IFDNE O(N), where N is the length of the old value.")
    .history(&[
        ("2.6.12", "Added `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Added `KEEPTTL`."),
        ("6.2.0", "Added `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` and `GET` go together."),
        ("8.1.0", "Added `IFEQ`."),
        ("8.4.0", "Added `IFNE`, `IFDEQ` and `IFDNE`."),
    ])
    .args(&[
        Arg::key("key", 0),
        Arg::string("value"),
        Arg::one_of("condition", CONDITIONS).optional(),
        Arg::word("get", "GET").since("6.2.0").optional(),
        Arg::one_of("expiration", EXPIRATIONS).optional(),
    ]),
    subcommands: &[],
    run,
};

/// How a request accesses its key, by its options.
fn key_flags(request: Args<'_>) -> KeyFlags {
    let has = |word: &str| request.tail(3.min(request.len())).iter().any(|arg| arg.eq_token(word));
    if has("get") {
        KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE
    } else if ["ifne", "ifdeq", "ifdne"].into_iter().any(has) {
        // A comparison does not return the value: it needs no permission to read. Valkey, which has only `IFEQ`, calls it
        // an overwriting.
        KeyFlags::RW | KeyFlags::UPDATE
    } else {
        KeyFlags::OW | KeyFlags::UPDATE
    }
}

const CONDITIONS: &[Arg] = &[
    Arg::word("nx", "NX").since("2.6.12"),
    Arg::word("xx", "XX").since("2.6.12"),
    Arg::string("comparison-value").token("IFEQ").since("8.1.0"),
    Arg::string("ifne-value").token("IFNE").since("8.4.0"),
    Arg::string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
    Arg::string("ifdne-digest").token("IFDNE").since("8.4.0"),
];

const EXPIRATIONS: &[Arg] = &[
    Arg::integer("seconds").token("EX").since("2.6.12"),
    Arg::integer("milliseconds").token("PX").since("2.6.12"),
    Arg::new("unix-time-seconds", ArgType::UnixTime).token("EXAT").since("6.2.0"),
    Arg::new("unix-time-milliseconds", ArgType::UnixTime).token("PXAT").since("6.2.0"),
    Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
];

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, value) = (ctx.key(0), args.argument(2));
    if args.len() == 3 {
        ctx.data.set(key, string_of(value), ExpiryChange::Clear);
        ctx.changed(EventClass::String, "set", key);
        return Ok(reply.ok());
    }
    let options = SetOptions::parse(args.tail(3), OptionSet::Set)?;
    let expiry = options.expiry_change(ctx)?.unwrap_or(ExpiryChange::Clear);
    let assignment = Assignment { key, value, condition: options.condition, expiry };
    if options.get {
        return set_and_get(ctx, &assignment, reply);
    }
    let is_set = assign(ctx, &assignment)?;
    if is_set {
        log_assignment(ctx, &assignment);
    }
    Ok(if is_set { reply.ok() } else { reply.null() })
}

/// Performs an assignment, and replies with the previous value, whether the condition held or not.
pub(super) fn set_and_get(
    ctx: &mut Ctx<'_>,
    assignment: &Assignment<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    ctx.data.expire_if_due(assignment.key);
    let mut out = reply.parts();
    ctx.write_string(assignment.key, &mut out)?;
    if assign(ctx, assignment)? {
        log_assignment(ctx, assignment);
    }
    Ok(out.done())
}
