//! `XGROUP`

use collections::stream::{Group as ConsumerGroup, Stream, StreamId};
use wire::request::Args;

use super::ids::{parse_id, parse_id_or_end};
use super::{no_group_of_key, parse_integer};
use crate::command::{Access, Categories, Command, Flags, Handler, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::help;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XGROUP subcommand ...`
pub const COMMAND: Command = Command::container(
    "xgroup",
    Doc::new(Group::Stream, "5.0.0", "Subcommands for consumer groups.")
        .complexity("Depends on the subcommand."),
    &[
        Command {
            flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
            ..sub(
                "create",
                -5,
                INSERT,
                Doc::new(Group::Stream, "5.0.0", "Creates a consumer group.")
                    .history(&[("7.0.0", "Added `entries_read`.")])
                    .args(&[KEY, GROUP, ID, MKSTREAM, ENTRIESREAD]),
                create,
            )
        },
        Command {
            flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
            ..sub(
                "createconsumer",
                5,
                INSERT,
                Doc::new(Group::Stream, "6.2.0", "Adds a consumer to a consumer group.")
                    .args(&[KEY, GROUP, CONSUMER]),
                create_consumer,
            )
        },
        sub(
            "delconsumer",
            5,
            DELETE,
            Doc::new(
                Group::Stream,
                "5.0.0",
                "Deletes a consumer of a consumer group and its pending entries.",
            )
            .args(&[KEY, GROUP, CONSUMER]),
            delete_consumer,
        ),
        sub(
            "destroy",
            4,
            DELETE,
            Doc::new(Group::Stream, "5.0.0", "Deletes a consumer group and its pending entries.")
                .complexity("O(N) for N pending entries.")
                .args(&[KEY, GROUP]),
            destroy,
        ),
        help::command(Group::Stream, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply))
            .add_categories(Categories::STREAM),
        sub(
            "setid",
            -5,
            UPDATE,
            Doc::new(Group::Stream, "5.0.0", "Sets the ID after which a consumer group continues to read.")
                .history(&[("7.0.0", "Added `entries_read`.")])
                .args(&[KEY, GROUP, ID, ENTRIESREAD]),
            set_id,
        ),
    ],
);

const INSERT: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.union(KeyFlags::INSERT))];
const UPDATE: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.union(KeyFlags::UPDATE))];
const DELETE: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW.union(KeyFlags::DELETE))];

const KEY: Arg = Arg::key("key", 0);
const GROUP: Arg = Arg::string("group");
const CONSUMER: Arg = Arg::string("consumer");
const ID: Arg = Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]);
const MKSTREAM: Arg = Arg::word("mkstream", "MKSTREAM").optional();
const ENTRIESREAD: Arg = Arg::integer("entriesread").shown("entries-read").token("ENTRIESREAD").optional();

const fn sub(name: &'static str, arity: i32, keys: &'static [KeySpec], doc: Doc, run: Handler) -> Command {
    Command {
        name,
        arity,
        flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
        categories: Categories::STREAM,
        access: Access::Write,
        keys,
        tips: &[],
        doc,
        subcommands: &[],
        run,
    }
}

/// `CREATE` with each option once.
const ARGUMENT_COUNT_MAX: usize = 8;

const NO_KEY: CommandError = CommandError::new(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);
const BUSY_GROUP: CommandError = CommandError::new("BUSYGROUP Consumer Group name already exists");
const BAD_ENTRIES_READ: CommandError = CommandError::new("ERR value for ENTRIESREAD must be positive or -1");

fn create(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = CreateOptions::parse(args)?;
    let key = ctx.key(0);
    let last_id = ctx.find_for_write::<Stream>(key)?.map(|stream| stream.last_id);
    let is_new = last_id.is_none();
    if is_new && !options.makes_stream {
        return Err(NO_KEY);
    }
    if args.len() > ARGUMENT_COUNT_MAX {
        return Err(help::wrong_subcommand("XGROUP", args.at(1)));
    }
    let id = match up_to_nul(args.at(4)) {
        b"$" => last_id.unwrap_or(StreamId::MIN),
        text => parse_id(text, 0)?,
    };
    let added = ctx.edit_or_new(key, |stream: &mut Stream, _| {
        let entries_read = options.entries_read_at(stream, id);
        stream.add_group(args.at(3), ConsumerGroup::new(id, entries_read))
    })?;
    if !added {
        return Err(BUSY_GROUP);
    }
    log_limited(ctx, args, &options, id);
    if is_new {
        ctx.also_changed(key);
    }
    report(ctx, "xgroup-create");
    Ok(reply.ok())
}

fn set_id(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = CreateOptions::parse(args)?;
    let last_id = with_group(ctx, args, |stream, _| stream.last_id)?;
    let id = match up_to_nul(args.at(4)) {
        b"$" => last_id,
        text => parse_id_or_end(text, 0)?,
    };
    with_group(ctx, args, |stream, name| {
        let entries_read = options.entries_read_at(stream, id);
        if let Some(group) = stream.group_mut(name) {
            group.last_id = id;
            group.entries_read = entries_read;
        }
    })?;
    log_limited(ctx, args, &options, id);
    report(ctx, "xgroup-setid");
    Ok(reply.ok())
}

fn destroy(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let destroyed = ctx.edit(key, |stream: &mut Stream, _| stream.remove_group(args.at(3)))?.ok_or(NO_KEY)?;
    if destroyed {
        report(ctx, "xgroup-destroy");
        // Sessions blocked on the group are woken and fail, because the group no longer exists.
        ctx.data.note_ready_if_waited(key);
    }
    Ok(reply.flag(destroyed))
}

fn create_consumer(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let now = ctx.now().0;
    let created = with_group(ctx, args, |stream, name| {
        let Some(group) = stream.group_mut(name) else { return false };
        let is_new = group.find_consumer(args.at(4)).is_none();
        if is_new {
            group.add_consumer(args.at(4), now);
        }
        is_new
    })?;
    if created {
        report(ctx, "xgroup-createconsumer");
    }
    Ok(reply.flag(created))
}

fn delete_consumer(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let pending = with_group(ctx, args, |stream, name| stream.group_mut(name)?.remove_consumer(args.at(4)))?;
    if pending.is_some() {
        report(ctx, "xgroup-delconsumer");
    }
    Ok(reply.integer(pending.unwrap_or(0) as i64))
}

/// Changes a stream that must have the group named in the request.
fn with_group<R>(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    change: impl FnOnce(&mut Stream, &[u8]) -> R,
) -> Result<R, CommandError> {
    let name = args.at(3);
    let changed = ctx.edit(ctx.key(0), |stream: &mut Stream, _| {
        stream.group(name)?;
        Some(change(stream, name))
    })?;
    changed.ok_or(NO_KEY)?.ok_or_else(|| no_group_of_key(args.at(2), name))
}

/// Reports a change that does not affect `WATCH`: the entries of the stream are unchanged.
fn report(ctx: &mut Ctx<'_>, event: &'static str) {
    ctx.report.dirty += 1;
    ctx.announce(EventClass::Stream, event, ctx.key(0));
}

/// Records `CREATE` or `SETID` with the number of entries that was set, if the request has a larger one.
fn log_limited(ctx: &mut Ctx<'_>, args: Args<'_>, options: &CreateOptions, id: StreamId) {
    let key = ctx.key(0);
    let group = ctx.peek::<Stream>(key).and_then(|stream| stream.group(args.at(3)));
    let Some(read) = group.and_then(|group| group.entries_read).filter(|_| ctx.records_effects()) else {
        return;
    };
    if options.entries_read == Some(read) {
        return;
    }
    let id = id.to_string();
    let head = [EffectArg::from("XGROUP")].into_iter().chain(args.range(1..4).iter().map(EffectArg::from));
    let makes_stream = options.makes_stream.then_some(EffectArg::from("MKSTREAM"));
    let tail = [EffectArg::from("ENTRIESREAD"), (read as i64).into()];
    let effect = head.chain([id.as_str().into()]).chain(makes_stream).chain(tail);
    ctx.record_effect(&effect.collect::<Vec<_>>());
}

#[derive(Default)]
struct CreateOptions {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl CreateOptions {
    /// Returns `ENTRIESREAD`, limited to what a group with this last id can have read. Otherwise the lag would be too small,
    /// even negative.
    fn entries_read_at(&self, stream: &Stream, id: StreamId) -> Option<u64> {
        self.entries_read.map(|read| read.min(stream.entries_read_max(id)))
    }

    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let is_create = args.at(1).eq_token("create");
        let mut rest = args.tail(5).iter();
        while let Some(word) = rest.next() {
            if is_create && word.eq_token("mkstream") {
                options.makes_stream = true;
                continue;
            }
            let Some(operand) = rest.next().filter(|_| word.eq_token("entriesread")) else {
                return Err(help::wrong_subcommand("XGROUP", args.at(1)));
            };
            let count = parse_integer(operand)?;
            if count < -1 {
                return Err(BAD_ENTRIES_READ);
            }
            options.entries_read = u64::try_from(count).ok();
        }
        Ok(options)
    }
}
