//! `BITFIELD` and `BITFIELD_RO`

use collections::DecimalBuffer;
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::fields::{Field, Overflow};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | ... INCRBY type offset increment
/// ...]`
pub const BITFIELD: Command = Command {
    name: "bitfield",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::BITMAP,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("Changes the value only with SET or INCRBY"),
        flags_of_request: Some(key_flags),
        ..KeySpec::first(
            KeyFlags::RW.union(KeyFlags::UPDATE).union(KeyFlags::ACCESS).union(KeyFlags::VARIABLE_FLAGS),
        )
    }],
    tips: &[],
    doc: Doc::new(
        Group::Bitmap,
        "3.2.0",
        "Reads, sets and increments integers of any bit width at any bit offset of a string.",
    )
    .complexity("O(1) for each operation.")
    .args(&[
        Arg::key("key", 0),
        Arg::one_of("operation", &[Arg::block("get-block", FIELD).token("GET"), Arg::block("write", WRITE)])
            .optional()
            .multiple(),
    ]),
    subcommands: &[],
    run: bitfield,
};

/// How a request accesses its key: it only reads with `GET` alone. An invalid operation counts as a change.
fn key_flags(request: Args<'_>) -> KeyFlags {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        at += match up_to_nul(word).to_ascii_lowercase().as_slice() {
            b"get" => 3,
            b"overflow" => 2,
            _ => break,
        };
    }
    let only_gets = at == request.len();
    let reading = if only_gets { KeyFlags::RO } else { KeyFlags::RW | KeyFlags::UPDATE };
    reading | KeyFlags::ACCESS
}

/// `BITFIELD_RO key [GET type offset ...]`
pub const BITFIELD_RO: Command = Command {
    name: "bitfield_ro",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::BITMAP,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Bitmap, "6.0.0", "Reads integers of any bit width at any bit offset of a string.")
        .complexity("O(1) for each operation.")
        .args(&[Arg::key("key", 0), Arg::block("get-block", FIELD).token("GET").optional().multiple_token()]),
    subcommands: &[],
    run: bitfield_ro,
};

const FIELD: &[Arg] = &[Arg::string("encoding"), Arg::integer("offset")];

const WRITE: &[Arg] = &[
    Arg::one_of(
        "overflow-block",
        &[Arg::word("wrap", "WRAP"), Arg::word("sat", "SAT"), Arg::word("fail", "FAIL")],
    )
    .token("OVERFLOW")
    .optional(),
    Arg::one_of(
        "write-operation",
        &[
            Arg::block(
                "set-block",
                &[Arg::string("encoding"), Arg::integer("offset"), Arg::integer("value")],
            )
            .token("SET"),
            Arg::block(
                "incrby-block",
                &[Arg::string("encoding"), Arg::integer("offset"), Arg::integer("increment")],
            )
            .token("INCRBY"),
        ],
    ),
];

const ONLY_GET: CommandError = CommandError::new("ERR BITFIELD_RO only supports the GET subcommand");

/// An operation of the request.
struct Operation {
    field: Field,
    action: FieldAction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldAction {
    Read,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

impl Operation {
    fn parse_all(ctx: &Ctx<'_>, args: Args<'_>) -> Result<Vec<Self>, CommandError> {
        let mut operations = Vec::new();
        let mut overflow = Overflow::Wrap;
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let operand_count = args.len() - at - 1;
            let is = |name: &[u8], needed: usize| operand_count >= needed && word.eq_token(name);
            if is(b"overflow", 1) {
                overflow = Overflow::parse(args.at(at + 1))?;
                at += 2;
                continue;
            }
            let (reads, adds) = (is(b"get", 2), is(b"incrby", 3));
            if !reads && !adds && !is(b"set", 3) {
                return Err(CommandError::SYNTAX);
            }
            let field = Field::parse(ctx, args.at(at + 1), args.at(at + 2))?;
            if reads {
                operations.push(Self { field, action: FieldAction::Read });
                at += 3;
                continue;
            }
            let number = parse_i64_strict(args.at(at + 3)).ok_or(CommandError::NOT_AN_INTEGER)?;
            let action =
                if adds { FieldAction::Add(number, overflow) } else { FieldAction::Set(number, overflow) };
            operations.push(Self { field, action });
            at += 4;
        }
        Ok(operations)
    }

    /// Performs the operation. Returns the result, and whether the value changed.
    fn apply(&self, bytes: &mut [u8]) -> (Option<i64>, bool) {
        let before = self.field.read(bytes);
        let (new, answers_new) = match self.action {
            FieldAction::Read => return (Some(before), false),
            FieldAction::Set(value, overflow) => (self.field.fit(value, overflow), false),
            FieldAction::Add(increment, overflow) => (self.field.fit_sum(before, increment, overflow), true),
        };
        let Some(new) = new else { return (None, false) };
        self.field.write(bytes, new);
        (Some(if answers_new { new } else { before }), new != before)
    }
}

fn bitfield(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let operations = Operation::parse_all(ctx, args.tail(2))?;
    let written = operations.iter().filter(|operation| operation.action != FieldAction::Read);
    match written.map(|operation| operation.field.end_size()).max() {
        None => read(ctx, &operations, reply),
        Some(size_min) => write(ctx, ctx.key(0), size_min, &operations, reply),
    }
}

fn bitfield_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let operations = Operation::parse_all(ctx, args.tail(2))?;
    if operations.iter().any(|operation| operation.action != FieldAction::Read) {
        return Err(ONLY_GET);
    }
    read(ctx, &operations, reply)
}

fn read(ctx: &Ctx<'_>, operations: &[Operation], reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut decimal = DecimalBuffer::new();
    let value = ctx.find_string(ctx.key(0))?;
    let text = value.and_then(|value| value.text(&mut decimal)).unwrap_or_default();
    let mut out = reply.array(operations.len());
    operations.iter().for_each(|operation| out.integer(operation.field.read(text)));
    Ok(out.done())
}

fn write(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    size_min: usize,
    operations: &[Operation],
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut change_count: u64 = 0;
    let mut is_longer = false;
    let mut out = reply.array(operations.len());
    let edited = ctx.data.edit_string_of(key, size_min, |bytes, old_len| {
        let has_grown = old_len.is_none_or(|len| len < size_min);
        is_longer = has_grown;
        for operation in operations {
            let (answer, is_different) = operation.apply(bytes);
            let is_write = operation.action != FieldAction::Read && answer.is_some();
            change_count += u64::from(is_different || has_grown && is_write);
            match answer {
                Some(answer) => out.integer(answer),
                None => out.null(),
            }
        }
    });
    edited.map_err(|_| CommandError::WRONG_TYPE)?;
    if change_count > 0 {
        ctx.changed(EventClass::String, "setbit", key);
        ctx.report.dirty += change_count - 1;
    } else if is_longer {
        // A failed operation extends the string, too. As in Valkey, this publishes no event, but it is logged.
        ctx.report.dirty += 1;
        ctx.also_changed(key);
    }
    Ok(out.done())
}
