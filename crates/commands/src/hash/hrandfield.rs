//! `HRANDFIELD`

use std::collections::HashSet;

use collections::{Hash, Item};
use keyspace::Random;
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `HRANDFIELD key [count [WITHVALUES]]`
pub const COMMAND: Command = Command {
    name: "hrandfield",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Hash, "6.2.0", "Returns random fields of a hash.")
        .complexity("O(N) where N is the number of fields returned.")
        .args(&[
            Arg::key("key", 0),
            Arg::block("options", &[Arg::integer("count"), Arg::word("withvalues", "WITHVALUES").optional()])
                .optional(),
        ]),
    subcommands: &[],
    run,
};

/// If fewer than 1 / `DRAW_FACTOR` of the fields are requested, they are drawn one by one. Otherwise one pass over
/// the hash decides for each field.
const DRAW_FACTOR: usize = 3;

/// Maximum draws per requested field before the search ends.
const DRAWS_PER_FIELD: usize = 10;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let due = ctx.data.due();
    if args.len() == 2 {
        let mut out = reply.parts();
        let random = ctx.data.random();
        let hash = ctx.find::<Hash>(ctx.key(0))?;
        match hash.and_then(|hash| hash.sample(due, || random.next_u64())) {
            Some((field, _)) => write_item(&mut out, field),
            None => out.null(),
        }
        return Ok(out.done());
    }
    let wanted = RandomFieldOptions::parse(args)?;
    let random = ctx.data.random();
    let Some(hash) = ctx.find::<Hash>(ctx.key(0))?.filter(|_| wanted.count > 0) else {
        return Ok(reply.array(0).done());
    };
    let mut out = reply.parts();
    let deferred = out.deferred_array();
    let mut writer = Writer { out: &mut out, with_values: wanted.with_values, count: 0 };
    if wanted.may_repeat {
        repeat(hash, due, wanted.count, ctx.repetition_size_max(), random, &mut writer);
    } else {
        choose(hash, due, wanted.count, random, &mut writer);
    }
    let count = writer.count;
    let flattened = if wanted.with_values && !out.is_resp3() { 2 } else { 1 };
    out.set_len(deferred, flattened * count);
    Ok(out.done())
}

struct RandomFieldOptions {
    count: usize,
    may_repeat: bool,
    with_values: bool,
}

impl RandomFieldOptions {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let count = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
        if count == i64::MIN {
            return Err(CommandError::new(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        let with_values = args.len() == 4 && args.at(3).eq_token("withvalues");
        if args.len() > 3 && !with_values {
            return Err(CommandError::SYNTAX);
        }
        if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(CommandError::OUT_OF_RANGE);
        }
        Ok(Self { count: count.unsigned_abs() as usize, may_repeat: count < 0, with_values })
    }
}

/// Writes fields, optionally with their values.
struct Writer<'w, 'o> {
    out: &'w mut ReplyBuffer<'o>,
    with_values: bool,
    count: usize,
}

impl Writer<'_, '_> {
    fn write(&mut self, (field, value): (Item<'_>, Item<'_>)) {
        if self.with_values && self.out.is_resp3() {
            self.out.array(2);
        }
        write_item(self.out, field);
        if self.with_values {
            write_item(self.out, value);
        }
        self.count += 1;
    }
}

/// Draws `count` fields with repetition. Ends early when the reply exceeds the output limit of the
/// connection.
fn repeat(hash: &Hash, due: i64, count: usize, size_max: u64, random: &Random, writer: &mut Writer<'_, '_>) {
    let start = writer.out.mark();
    for _ in 0..count {
        let Some(pair) = hash.sample(due, || random.next_u64()) else { break };
        if writer.out.written_since(start).len() as u64 > size_max {
            break;
        }
        writer.write(pair);
    }
}

/// Chooses `count` distinct fields.
fn choose(hash: &Hash, due: i64, count: usize, random: &Random, writer: &mut Writer<'_, '_>) {
    if count < hash.len() / DRAW_FACTOR && !hash.is_packed() {
        let mut seen = HashSet::with_capacity(count);
        for _ in 0..count.saturating_mul(DRAWS_PER_FIELD) {
            if seen.len() == count {
                break;
            }
            let Some(pair) = hash.sample(due, || random.next_u64()) else { break };
            let Item::Bytes(field) = pair.0 else { continue };
            if seen.insert(field) {
                writer.write(pair);
            }
        }
        return;
    }
    let mut left = hash.len();
    if hash.has_expiries() {
        left = 0;
        hash.visit(due, |_, _| {
            left += 1;
            true
        });
    }
    // Selection sampling: each field is chosen with probability wanted / left.
    let mut wanted = count.min(left);
    hash.visit(due, |field, value| {
        if random.below(left as u64) < wanted as u64 {
            writer.write((field, value));
            wanted -= 1;
        }
        left -= 1;
        wanted > 0
    });
}
