//! `COPY`

use base::DbIndex;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `COPY source destination [DB destination-db] [REPLACE]`
pub const COMMAND: Command = Command {
    name: "copy",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::RO.union(KeyFlags::ACCESS)),
        KeySpec::at(2, KeyFlags::OW.union(KeyFlags::UPDATE)),
    ],
    tips: &[],
    doc: Doc::new(Group::Generic, "6.2.0", "Copies the value of a key to another key.")
        .complexity("O(N) where N is the number of elements of a collection. O(1) for strings.")
        .args(&[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::integer("destination-db").token("DB").optional(),
            Arg::word("replace", "REPLACE").optional(),
        ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = CopyOptions::parse(ctx, args)?;
    let (source, destination) = (ctx.key(0), ctx.key(1).in_db(options.db));
    if source.db == destination.db && source.bytes == destination.bytes {
        return Err(CommandError::SAME_OBJECT);
    }
    if ctx.data.find(source).is_none() {
        return Ok(reply.flag(false));
    }
    if ctx.data.find_for_write(destination).is_some() && !options.replace {
        return Ok(reply.flag(false));
    }
    ctx.data.copy(source, destination);
    ctx.changed(EventClass::Generic, "copy_to", destination);
    Ok(reply.flag(true))
}

struct CopyOptions {
    db: DbIndex,
    replace: bool,
}

impl CopyOptions {
    fn parse(ctx: &Ctx<'_>, args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self { db: ctx.db(), replace: false };
        let mut rest = args.tail(3).iter();
        while let Some(word) = rest.next() {
            if word.eq_token("replace") {
                options.replace = true;
            } else if word.eq_token("db") {
                options.db = ctx.parse_db_index(rest.next().ok_or(CommandError::SYNTAX)?)?;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }
}
